"""The schemas themselves: complete, standard, and read by us as anybody else reads them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from appliance.config import load, source
from appliance.config.check import check
from appliance.config.problem import Path as KeyPath
from appliance.config.problem import Problem
from appliance.config.schema import Schema
from appliance.config.settings import settings
from appliance.config.source import Scalar
from appliance.config.substitute import expand
from tests.config import golden

SCHEMAS = ("deploy", "family")
CLASSES = {"live", "cache", "engine", "listener", "process"}
# What we have words for; a violation of another keyword could not be reported.
KEYWORDS = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "default", "examples", "type", "enum", "const",
    "pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "items", "minItems", "maxItems", "properties",
    "patternProperties", "additionalProperties", "propertyNames", "minProperties", "required", "anyOf", "not",
    "if", "then", "dependentRequired", "x-secret",
    "x-apply", "x-available", "x-unit", "x-free", "x-expected", "x-load-time", "x-request-time", "x-same",
}  # fmt: skip
PROPERTIES = [
    (f"{which}: {'.'.join(path)}", schema) for which in SCHEMAS for path, schema in load.schema(which).properties()
]


@pytest.mark.parametrize("which", SCHEMAS)
def test_a_schema_is_valid_2020_12(which: str) -> None:
    schema = json.loads(load.schema_text(which))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(("name", "schema"), PROPERTIES, ids=[name for name, _ in PROPERTIES])
def test_every_property_is_described_and_says_how_a_change_applies(name: str, schema: dict[str, Any]) -> None:
    assert len(schema["description"]) > 5
    assert schema["description"][-1] == "."
    assert schema["x-apply"] in CLASSES


EXEMPLARY = [
    (".".join(path), schema)
    for path, schema in load.schema("deploy").properties()
    # What no request-time block may have is there only to be refused.
    if not schema.get("x-load-time")
]


@pytest.mark.parametrize(("name", "schema"), EXEMPLARY, ids=[name for name, _ in EXEMPLARY])
def test_every_key_of_the_language_has_examples_that_are_good(name: str, schema: dict[str, Any]) -> None:
    assert schema["examples"]
    alone = Schema({"$defs": load.schema("deploy").root["$defs"], **schema})
    for example in schema["examples"]:
        assert {found.keyword for found in alone.violations(example)} <= {"x-available"}


@pytest.mark.parametrize(("name", "schema"), EXEMPLARY, ids=[name for name, _ in EXEMPLARY])
def test_a_key_has_a_default_or_is_needed_or_says_what_holds_without_it(name: str, schema: dict[str, Any]) -> None:
    needed = {key for each in _subschemas(load.schema("deploy").root) for key in each.get("required", ())}
    of_a_policy = {"lock", "clamp", "forbid"} & set(name.split("."))
    assert (
        "default" in schema
        or of_a_policy
        or name.rpartition(".")[2] in needed
        or re.search(r"[Ww]ithout|normally", schema["description"])
    )


@pytest.mark.parametrize("which", SCHEMAS)
def test_every_object_is_closed_or_free_on_purpose(which: str) -> None:
    for schema in _subschemas(json.loads(load.schema_text(which))):
        if "object" in _types(schema):
            additional = schema.get("additionalProperties")
            assert (
                isinstance(additional, dict) or additional is False or (additional is True and schema.get("x-free"))
            )
            if additional is False:
                assert schema["patternProperties"] == {"^x-": True}


@pytest.mark.parametrize("which", SCHEMAS)
def test_only_keywords_that_we_have_words_for_are_used(which: str) -> None:
    for schema in _subschemas(json.loads(load.schema_text(which))):
        assert schema.keys() <= KEYWORDS


@pytest.mark.parametrize("which", SCHEMAS)
def test_alternatives_differ_in_kind_so_that_one_can_be_chosen(which: str) -> None:
    compiled = load.schema(which)
    for schema in _subschemas(compiled.root):
        branches = [compiled.resolve(branch) for branch in schema.get("anyOf", ())]
        kinds = [_kind(branch) for branch in branches if "required" not in branch or "type" in branch]
        assert len(kinds) == len(set(kinds))


def test_defaults_of_the_schema_are_what_an_empty_file_gets(here: Path) -> None:
    def value(text: str) -> Any:
        deployment = golden.read(text)
        return deployment.server, deployment.engine, deployment.memory, deployment.models, deployment.caches

    model = {"source": "fake:script.yaml"}
    spelt_out = {
        "version": 1,
        "server": _defaults("server") | {"reload": _defaults("server.reload")},
        "engine": _defaults("engine"),
        "memory": _defaults("memory"),
        "cache": {"chat": {"prefix": _defaults("cache.*.prefix")}},
        "defaults": _defaults("defaults"),
        "models": {"demo": model | {k: v for k, v in _defaults("models.*").items() if k != "revision"}},
    }
    assert value(yaml.safe_dump(spelt_out)) == value(yaml.safe_dump({"version": 1, "models": {"demo": model}}))


def test_every_setting_of_the_schema_is_in_the_frozen_types(here: Path) -> None:
    """The golden resolutions say everything there is to say, so what plans compare must hold every property."""
    found = set()
    for case in golden.cases("resolutions"):
        text = case.read_text(encoding="utf-8").split(f"{golden.DIVIDER}\n")[0]
        found |= set(settings(golden.read(text, tolerate={"E110"})))
    leaves = {path for path, schema in load.schema("deploy").properties() if not _holds_more(schema)}
    missing = {path for path in leaves if not any(_is_of(path, setting) for setting in found)}
    assert {path for path in missing if not _is_elsewhere(path)} == set()


def _holds_more(schema: dict[str, Any]) -> bool:
    return "properties" in schema or isinstance(schema.get("additionalProperties"), dict) or "anyOf" in schema


def _is_of(path: tuple[str, ...], setting: KeyPath) -> bool:
    pairs = zip(path, setting, strict=False)
    return len(path) <= len(setting) and all(part in ("*", str(own)) for part, own in pairs)


def _is_elsewhere(path: tuple[str, ...]) -> bool:
    """The language itself, defaults (they are in each model), overlays (tested with requests) and lists."""
    return (
        path[0] in ("version", "include", "defaults")
        or any(part in ("sampling", "policy", "template") for part in path)
        or path[:3] == ("routing", "rules", "*")
    )


def test_a_general_validator_agrees_about_every_case(here: Path) -> None:
    """Editors validate with the schema alone: they must not call a good file bad, nor a wrong shape good."""
    validator = jsonschema.Draft202012Validator(json.loads(load.schema_text("deploy")))
    ours = {"E102", "E104", "E105", "E106", "E111", "E112"}
    for case in [*golden.cases("bad"), *golden.cases("resolutions")]:
        text = case.read_text(encoding="utf-8").split(f"{golden.DIVIDER}\n")[0]
        if "${" in text:
            continue
        tree, _ = source.parse(text, "deploy.yaml")
        if tree is None:
            continue
        _, problems = check(tree, load.schema("deploy"), _unexpanded)
        structural = [p for p in problems if p.code in ours]
        assert validator.is_valid(_plain(tree)) == (not structural), (case.stem, structural)


def _unexpanded(scalar: Scalar, path: KeyPath) -> Scalar | Problem:
    return expand(scalar, path, {}, str)


def _plain(node: source.Node) -> Any:
    match node:
        case source.Scalar():
            return source.natural(node)
        case source.Sequence():
            return [_plain(item) for item in node.items]
        case source.Mapping():
            return {key: _plain(entry.value) for key, entry in node.entries.items()}


def _defaults(path: str) -> dict[str, Any]:
    """What the schema gives as defaults directly below a path, of what this version has."""
    below = [(".".join(p), s) for p, s in load.schema("deploy").properties()]
    found = {p.removeprefix(f"{path}."): s for p, s in below if p.startswith(f"{path}.")}
    return {
        key: s["default"] for key, s in found.items() if "." not in key and "default" in s and "x-available" not in s
    }


def _subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for key in ("items", "additionalProperties", "propertyNames"):
            yield from _subschemas(schema.get(key))
        for key in ("properties", "$defs"):
            for below in schema.get(key, {}).values():
                yield from _subschemas(below)
        for below in schema.get("anyOf", ()):
            yield from _subschemas(below)


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _kind(schema: Any) -> str:
    types = _types(schema)
    return "object" if "object" in types else "array" if "array" in types else "scalar"
