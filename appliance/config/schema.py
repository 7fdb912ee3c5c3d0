"""A located tree against a JSON schema: every Problem with its place, and the values with their units read.

Evaluates the part of JSON Schema 2020-12 our schemas use, in one walk that also substitutes, coerces and reads units:
a general validator would need a second walk for that, and cannot say which key was meant.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from appliance.config import source
from appliance.config.problem import Path, Place, Problem, at
from appliance.config.source import Node, Scalar, Sequence
from appliance.config.suggest import nearest
from appliance.config.units import UNITS, NotAQuantity

JsonSchema = Mapping[str, Any]
Expand = Callable[[Scalar, Path], Scalar | Problem]

_INVALID = object()
_ANYWHERE: JsonSchema = {}
_KINDS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "nothing",
}
_FALSE_FRIENDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


@dataclass(frozen=True, slots=True)
class Checked:
    """The valid part of a file: plain values with units read, nulls gone, and where each key and value stands."""

    value: dict[str, Any]
    keys: Mapping[Path, Place]
    values: Mapping[Path, Place]

    def at_value(self, path: Path) -> Place:
        """Where the value stands, or the nearest thing around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values[path]

    def at_key(self, path: Path) -> Place:
        """Where the key stands, or the nearest thing around it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys[path] if path else self.values[()]


class Schema:
    """A JSON schema ready for use: references resolved, keys findable by name."""

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        self._resolved: dict[int, JsonSchema] = {}
        self._homes: dict[str, list[tuple[str, ...]]] | None = None

    def resolve(self, schema: JsonSchema) -> JsonSchema:
        """The schema with its `$ref` laid under its own keywords."""
        if "$ref" not in schema:
            return schema
        found = self._resolved.get(id(schema))
        if found is None:
            target = self.root["$defs"][schema["$ref"].rpartition("/")[2]]
            found = self._resolved[id(schema)] = {**self.resolve(target), **schema}
        return found

    def below(self, schema: JsonSchema, key: str) -> JsonSchema | None:
        """The schema of one key of an object, None where the object has no such key."""
        properties = schema.get("properties", _ANYWHERE)
        if key in properties:
            return self.resolve(properties[key])
        additional = schema.get("additionalProperties", False)
        return self.resolve(additional) if isinstance(additional, Mapping) else None

    def homes(self, key: str) -> list[tuple[str, ...]]:
        """The objects that have this key, as paths with `*` for any name; nearest to the root first."""
        if self._homes is None:
            self._homes = {}
            for path, _ in self.properties():
                self._homes.setdefault(path[-1], []).append(path[:-1])
        return sorted(self._homes.get(key, []), key=len)

    def properties(self) -> Iterator[tuple[tuple[str, ...], JsonSchema]]:
        """Every named property with its path (`*` for any name)."""
        yield from self._properties(self.root, ())

    def _properties(self, schema: JsonSchema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonSchema]]:
        schema = self.resolve(schema)
        for branch in schema.get("anyOf", ()):
            yield from self._properties(branch, path)
        for key, value in schema.get("properties", _ANYWHERE).items():
            resolved = self.resolve(value)
            yield (*path, key), resolved
            yield from self._properties(resolved, (*path, key))
        if isinstance(additional := schema.get("additionalProperties"), Mapping):
            yield from self._properties(additional, (*path, "*"))


def check(tree: Node, schema: Schema, expand: Expand) -> tuple[Checked, list[Problem]]:
    """All problems of the second tier, and what is left without the parts that have one."""
    walk = _Walk(schema, expand)
    value = walk.node(tree, schema.root, ())
    return Checked(value if isinstance(value, dict) else {}, walk.keys, walk.values), walk.problems


@dataclass(slots=True)
class _Walk:
    schema: Schema
    expand: Expand
    problems: list[Problem] = field(default_factory=list)
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)

    def say(self, place: Place, code: str, path: Path, message: str, hint: str = "") -> object:
        self.problems.append(at(place, code, path, message, hint))
        return _INVALID

    def node(self, node: Node, schema: JsonSchema, path: Path) -> Any:
        self.values[path] = node.place
        if "type" not in schema and "anyOf" in schema:
            schema = self.branch(node, schema)
        types = _types(schema)
        match node:
            case Scalar():
                return self.scalar(node, schema, types, path)
            case Sequence() if "array" in types:
                return self.sequence(node, schema, path)
            case source.Mapping() if "object" in types:
                return self.mapping(node, schema, path)
        got = "a list" if isinstance(node, Sequence) else "an object"
        return self.say(node.place, "E104", path, f"expected {_expected(schema)}, got {got}")

    def branch(self, node: Node, schema: JsonSchema) -> JsonSchema:
        """The alternative of this node's kind; where there is none, one that expects them all."""
        branches = [self.schema.resolve(branch) for branch in schema["anyOf"]]
        wanted = {Sequence: "array", source.Mapping: "object"}.get(type(node))
        for branch in branches:
            compound = {"array", "object"} & set(_types(branch))
            if (wanted in compound) if wanted else not compound:
                return branch
        return {"type": "none", "x-expected": " or ".join(_expected(branch) for branch in branches)}

    # ---- objects and lists
    def mapping(self, node: source.Mapping, schema: JsonSchema, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        free = schema.get("x-free", False)
        for key, entry in node.entries.items():
            if key.startswith("x-") and not free:
                continue
            here = (*path, key)
            self.keys[here] = entry.key
            below = self.schema.below(schema, key)
            if below is None:
                value = self.free(entry.value, here) if free else self.unknown(entry.key, schema, here)
            elif (refused := self.refused(schema, below, key)) is not None:
                value = self.say(entry.key, refused[0], here, *refused[1:])
            else:
                value = self.node(entry.value, below, here)
            if value is not _INVALID and value is not None:
                out[key] = value
        self.missing(node, schema, path)
        return out

    def refused(self, schema: JsonSchema, below: JsonSchema, key: str) -> tuple[str, str, str] | None:
        """Why a known key may not stand here in spite of that: code, message and hint."""
        if below.get("x-load-time"):
            return "E111", "a template file is chosen when the model is loaded", "put it under models.<name>.template"
        if below.get("x-later"):
            return "E110", "not available in this version", "delete it, or give it a name beginning with x-"
        names = schema.get("propertyNames")
        if names and key not in schema.get("properties", _ANYWHERE) and not _matches(names["pattern"], key):
            return "E112", "not a name that can be used here", "no spaces, no `:`, and no `*?[]` except in aliases"
        return None

    def missing(self, node: source.Mapping, schema: JsonSchema, path: Path) -> None:
        place = self.keys.get(path, node.place)
        for key in schema.get("required", ()):
            if key not in node.entries:
                self.say(place, "E106", path, f"`{key}` is missing", _example(self.schema.below(schema, key), key))
        groups = [branch["required"] for branch in schema.get("anyOf", ()) if "required" in branch]
        if groups and not any(all(key in node.entries for key in group) for group in groups):
            choices = ", ".join(" and ".join(group) for group in groups)
            self.say(place, "E106", path, f"needs one of {choices}")
        if len(node.entries) < schema.get("minProperties", 0):
            self.say(place, "E106", path, "there must be at least one", "write a name and what it stands for")

    def sequence(self, node: Sequence, schema: JsonSchema, path: Path) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if not least <= len(node.items) <= most:
            wanted = f"exactly {least}" if least == most else f"at least {least}" if least else f"at most {most}"
            self.say(node.place, "E105", path, f"{len(node.items)} values where {wanted} are expected")
        items = self.schema.resolve(schema.get("items", _ANYWHERE))
        found = [self.node(item, items, (*path, i)) for i, item in enumerate(node.items)]
        return [item for item in found if item is not _INVALID]

    def free(self, node: Node, path: Path) -> Any:
        """A part the schema leaves open: substituted, otherwise as it stands."""
        self.values[path] = node.place
        match node:
            case Scalar():
                expanded = self.expand(node, path)
                if isinstance(expanded, Problem):
                    self.problems.append(expanded)
                    return _INVALID
                return source.natural(expanded)
            case Sequence():
                return [self.free(item, (*path, i)) for i, item in enumerate(node.items)]
            case _:
                return {key: self.free(entry.value, (*path, key)) for key, entry in node.entries.items()}

    def unknown(self, place: Place, schema: JsonSchema, path: Path) -> object:
        key = cast(str, path[-1])
        owner = schema.get("x-request-time")
        if owner and key in self.schema.resolve(self.schema.root["$defs"]["model"])["properties"]:
            hint = "put it under models.<name>; for another setting add another model"
            return self.say(place, "E111", path, f"{owner} holds request-time keys only", hint)
        siblings = schema.get("properties", _ANYWHERE)
        near = nearest(key, siblings)
        homes = [_shown(home, path) for home in self.schema.homes(key)]
        if homes and (near is None or abs(len(near) - len(key)) > 1):
            hint = f"this key belongs under `{_closest(homes)}`"
        elif near:
            hint = f"did you mean {near}?"
        else:
            hint = f"known here: {', '.join(siblings)}" if 0 < len(siblings) <= 6 else ""
        return self.say(place, "E102", path, "unknown key", hint)

    # ---- scalars
    def scalar(self, node: Scalar, schema: JsonSchema, types: tuple[str, ...], path: Path) -> Any:
        expanded = self.expand(node, path)
        if isinstance(expanded, Problem):
            self.problems.append(expanded)
            return _INVALID
        value = source.natural(expanded)
        if expanded.written is not None and "string" in types and not _is_a(value, types):
            value = expanded.text
        if value is None and "null" in types:
            return None
        if value is None:
            return self.say(node.place, "E104", path, "no value", f"write {_expected(schema)}, or delete the key")
        fault = _amiss(value, schema, types, expanded)
        if isinstance(fault, _Fault):
            return self.say(node.place, fault.code, path, fault.message, fault.hint)
        return fault


@dataclass(frozen=True, slots=True)
class _Fault:
    code: str
    message: str
    hint: str = ""


def _amiss(value: Any, schema: JsonSchema, types: tuple[str, ...], scalar: Scalar) -> Any:
    """The value as it is used from here on, or what is wrong with it."""
    shown = scalar.written if scalar.written is not None else _show(value)
    if (unit := schema.get("x-unit")) and not isinstance(value, bool):
        try:
            value = UNITS[unit](value)
        except NotAQuantity as fault:
            message = fault.message if scalar.written is None else f"{scalar.written} gives no such quantity"
            return _Fault("E105", message, fault.hint)
    elif not _is_a(value, types):
        return _Fault("E104", f"expected {_expected(schema)}, got {shown}", _type_hint(value, types, scalar))
    elif isinstance(value, float) and "number" not in types:
        value = int(value)
    return _bounds(value, schema, shown) or value


def _bounds(value: Any, schema: JsonSchema, shown: str) -> _Fault | None:
    if "const" in schema and value != schema["const"]:
        return _Fault("E105", f"{shown} is not {_show(schema['const'])}", f"write {_show(schema['const'])}")
    if "enum" in schema and value not in schema["enum"]:
        near = nearest(value, schema["enum"]) if isinstance(value, str) else None
        hint = f"did you mean {near}?" if near else ""
        return _Fault("E105", f"{shown} is not one of {', '.join(schema['enum'])}", hint)
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return _Fault("E105", "empty text")
        if "pattern" in schema and not _matches(schema["pattern"], value):
            return _Fault("E105", f"{shown} is not {_expected(schema)}")
        return None
    return _range(value, schema, shown) if isinstance(value, int | float) else None


def _range(value: float, schema: JsonSchema, shown: str) -> _Fault | None:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if "x-unit" not in schema and not math.isfinite(value):
        return _Fault("E105", f"{shown} is not a finite number")
    if value < low or value <= schema.get("exclusiveMinimum", -math.inf):
        least = f"above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else f"at least {low}"
        return _Fault("E105", f"{shown} is too small", f"it must be {least}")
    if value > high:
        return _Fault("E105", f"{shown} is too large", f"it must be at most {high}")
    return None


def _types(schema: JsonSchema) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _is_a(value: Any, types: tuple[str, ...]) -> bool:
    match value:
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types or "number" in types
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
    return value is None and "null" in types


def _expected(schema: JsonSchema) -> str:
    if "x-expected" in schema:
        return str(schema["x-expected"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "const" in schema:
        return _show(schema["const"])
    if "x-unit" in schema:
        return _QUANTITIES[schema["x-unit"]]
    return " or ".join(_KINDS[kind] for kind in _types(schema) if kind != "null")


_QUANTITIES = {
    "duration": "a duration like 15s",
    "duration_or_never": "a duration like 15m, or never",
    "bytes": "a size like 8GiB",
    "memory": "an amount like 8GiB or 75%",
    "tokens": "a number of tokens like 4096 or 32k",
}


def _type_hint(value: Any, types: tuple[str, ...], scalar: Scalar) -> str:
    if "boolean" in types and isinstance(value, str) and value.lower() in _FALSE_FRIENDS:
        return f"write {_FALSE_FRIENDS[value.lower()]}"
    if "string" in types and isinstance(value, bool | int | float) and scalar.written is None:
        return f'quote it: "{scalar.text}"'
    if not scalar.plain and not isinstance(source.core(scalar.text), str):
        return "delete the quotes"
    return ""


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    text = text if text.isprintable() else json.dumps(text, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _example(schema: JsonSchema | None, key: str) -> str:
    if schema is None:
        return ""
    if "const" in schema:
        return f"write {key}: {_show(schema['const'])}"
    examples = schema.get("examples")
    return f"write {key}: {_show(examples[0])}" if examples else ""


def _shown(home: tuple[str, ...], path: Path) -> tuple[int, str]:
    """How far a home is from an object, and how to name it from there."""
    common = 0
    for part, own in zip(home, path[:-1], strict=False):
        if part not in ("*", own):
            break
        common += 1
    if common == len(path) - 1:
        return (len(home) - common, ".".join(_placeholder(home[common:]))) if common < len(home) else (9, "")
    return 9 + len(home), ".".join(_placeholder(home))


def _placeholder(parts: tuple[str, ...]) -> list[str]:
    return ["<name>" if part == "*" else part for part in parts]


def _closest(homes: list[tuple[int, str]]) -> str:
    return min(homes, key=lambda home: home[0])[1] or "the top level"


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _matches(pattern: str, text: str) -> bool:
    return _pattern(pattern).search(text) is not None
