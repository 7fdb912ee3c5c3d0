"""The fields that ask for an answer's form, each read into a `Grammar`: OpenAI's and those of vLLM's servers."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from appliance.errors import BadRequest
from appliance.protocols.fields import Reader, check_depth, typed
from appliance.vocab.request import Grammar


class _Schema(msgspec.Struct):
    name: str = ""
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class _Format(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


class _Structured(msgspec.Struct):
    json: dict[str, Any] | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


def schema(name: str, wanted: dict[str, Any] | str) -> Grammar:
    """A JSON schema, as an object or as its text. Raises BadRequest where it is not an object."""
    try:
        value = json.loads(wanted) if isinstance(wanted, str) else wanted
    except ValueError as error:
        raise BadRequest(f"`{name}` is not valid JSON: {error}", param=name) from error
    if not isinstance(value, dict):
        raise BadRequest(f"`{name}` must be a JSON schema, which is an object", param=name)
    check_depth(name, value)
    return Grammar("json_schema", json.dumps(value, ensure_ascii=False), name)


def choice(name: str, wanted: list[str]) -> Grammar:
    """One of these texts. Raises BadRequest where one is empty or there are none."""
    if not wanted or not all(wanted):
        raise BadRequest(f"`{name}` must be a list of non-empty strings", param=name)
    return Grammar("choice", json.dumps(wanted, ensure_ascii=False), name)


def _written(kind: Literal["regex", "lark"]) -> Callable[[str, str], Grammar]:
    def read(name: str, wanted: str) -> Grammar:
        if not wanted:
            raise BadRequest(f"`{name}` is empty", param=name)
        return Grammar(kind, wanted, name)

    return read


def _response_format(name: str, wanted: _Format) -> Grammar | None:
    match wanted:
        case _Format(type="text"):
            return None
        case _Format(type="json_object"):
            return Grammar("json_object", "", name)
        case _Format(type="json_schema", json_schema=_Schema(schema=dict() as value)):
            return msgspec.structs.replace(schema(f"{name}.json_schema.schema", value), param=name)
        case _Format(type="json_schema"):
            raise BadRequest(f"`{name}.json_schema.schema` is required", param=name)
        case _:
            raise BadRequest(f"`{name}.type` must be text, json_object or json_schema", param=name)


def _structured(name: str, wanted: _Structured) -> Grammar | None:
    read: Mapping[str, Callable[[str, Any], Grammar]] = {
        "json": schema,
        "regex": _written("regex"),
        "choice": choice,
        "grammar": _written("lark"),
        "json_object": lambda at, value: Grammar("json_object", "", at),
    }
    given = {key: value for key in read if (value := getattr(wanted, key)) not in (None, False)}
    if len(given) > 1:
        raise BadRequest(f"`{name}` asks for several forms at once: {', '.join(given)}", param=name)
    return next((read[key](f"{name}.{key}", value) for key, value in given.items()), None)


FORMS: dict[str, Reader] = {
    "response_format": typed(_Format, "an object with a type", _response_format),
    "structured_outputs": typed(_Structured, "an object", _structured),
    "guided_json": typed(dict[str, Any] | str, "a JSON schema", schema),
    "guided_regex": typed(str, "a string", _written("regex")),
    "guided_choice": typed(list[str], "a list of strings", choice),
    "guided_grammar": typed(str, "a string", _written("lark")),
}
"""Rows for a protocol's table of fields."""


EXTENSIONS = {name: reader for name, reader in FORMS.items() if name != "response_format"}
"""For a protocol that has a name of its own for the rest."""


def form(given: Mapping[str, Any], own: Grammar | None = None) -> Grammar | None:
    """The one form asked for, of which `own` is what a protocol asks for by its own name. Raises BadRequest if there
    are two.
    """
    asked = [name for name in FORMS if name in given]
    named = [own.param, *asked] if own is not None else asked
    if len(named) > 1:
        raise BadRequest(f"`{named[0]}` and `{named[1]}` both ask for a form of the answer", param=named[1])
    grammar: Grammar | None = given[asked[0]] if asked else own
    return grammar
