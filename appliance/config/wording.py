"""What the JSON schema library finds, in our words: code, place, message and what to do. One row per keyword."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from appliance.config.problem import Path, Place, Problem, at
from appliance.config.scalar import (
    expected,
    flow,
    is_a,
    like,
    not_a_quantity,
    not_one_of,
    out_of_range,
    show,
    type_hint,
)
from appliance.config.schema import ANYWHERE, JsonSchema, Schema, Violation, types_of
from appliance.config.secret import SHOWN
from appliance.config.source import Scalar
from appliance.config.suggest import nearest


@dataclass(frozen=True, slots=True)
class Found:
    """A problem at a path. `spoils`: the value there cannot be used; `rank`: of several, the lowest is said."""

    path: Path
    problem: Problem
    spoils: bool
    rank: int


@dataclass(slots=True)
class Wording:
    """`scalars` are the scalars by path, with what was substituted into them."""

    schema: Schema
    keys: Mapping[Path, Place]
    values: Mapping[Path, Place]
    scalars: Mapping[Path, Scalar]

    def of(self, error: Violation) -> Iterator[Found]:
        if error.keyword == "anyOf":
            yield from self.alternatives(error)
        elif error.of_name:
            yield self.bad_name(error)
        else:
            yield from _ROWS[error.keyword](self, error)

    def one_per_value(self, found: list[Found]) -> list[Found]:
        """Without what only follows from another fault of the same value."""
        best: dict[Path, int] = {}
        for each in (each for each in found if each.spoils):
            best[each.path] = min(each.rank, best.get(each.path, each.rank))
        said: set[Path] = set()
        out = []
        for each in dict.fromkeys(found):
            again = each.path in said and each.path in self.scalars
            if each.spoils and (again or each.rank > best[each.path]):
                continue
            if each.spoils:
                said.add(each.path)
            out.append(each)
        return out

    # ---- places
    def at_value(self, path: Path, code: str, message: str, hint: str = "", *, rank: int = 2) -> Found:
        return Found(path, at(self.values[path], code, path, message, hint), True, rank)

    def at_key(self, path: Path, code: str, message: str, hint: str = "", *, spoils: bool = False) -> Found:
        place = self.keys.get(path) or self.values[path]
        return Found(path, at(place, code, path, message, hint), spoils, 2)

    def shown(self, error: Violation) -> str:
        """The value as it stands in the file."""
        if error.schema.get("x-secret"):
            return SHOWN
        scalar, value = self.scalars[error.path], error.value
        if scalar.written is not None:
            return scalar.written
        return show(scalar.text if scalar.plain else value, quoted=not scalar.plain)

    # ---- rows
    def alternatives(self, error: Violation) -> Iterator[Found]:
        schema = error.schema
        if all("required" in branch and "type" not in branch for branch in schema["anyOf"]):
            choices = ", ".join(" and ".join(branch["required"]) for branch in schema["anyOf"])
            yield self.at_key(error.path, "E106", f"needs one of {choices}")
            return
        branches = [self.schema.resolve(branch) for branch in schema["anyOf"]]
        chosen = self.schema.branch(schema, type(error.value))
        if chosen is None:
            wanted = " or ".join(expected(branch) for branch in branches)
            yield self.at_value(error.path, "E104", f"expected {wanted}, got {_kind(error.value)}")
            return
        index = next(i for i, branch in enumerate(branches) if branch is chosen)
        for branch, below in error.branches:
            if branch == index:
                yield from self.of(below)

    def wrong_type(self, error: Violation) -> Iterator[Found]:
        value, schema = error.value, error.schema
        if isinstance(value, dict | list):
            named = isinstance(value, list) and "propertyNames" in schema
            hint = "write each name as a key" if named else like(schema)
            yield self.at_value(error.path, "E104", f"expected {expected(schema)}, got {_kind(value)}", hint, rank=1)
        elif value is None:
            hint = f"write {expected(schema)}, or delete the key"
            yield self.at_value(error.path, "E104", "no value", hint, rank=1)
        elif isinstance(value, float) and not math.isfinite(value) and "number" in types_of(schema):
            hint = like(schema) or "write a number"
            yield self.at_value(error.path, "E105", f"{self.shown(error)} is not a finite number", hint, rank=1)
        else:
            hint = "" if schema.get("x-secret") else type_hint(value, schema, self.scalars[error.path])
            message = f"expected {expected(schema)}, got {self.shown(error)}"
            yield self.at_value(error.path, "E104", message, hint, rank=1)

    def quantity(self, error: Violation) -> Iterator[Found]:
        assert error.cause is not None
        message, hint = not_a_quantity(error.cause, self.scalars[error.path])
        yield self.at_value(error.path, "E105", message, hint, rank=0)

    def not_allowed(self, error: Violation) -> Iterator[Found]:
        schema = error.schema
        if "type" in schema and not is_a(error.value, types_of(schema)):
            return  # That it is of another type is said already.
        shown = self.shown(error)
        message, hint = _REFUSALS[error.keyword](error, schema, shown)
        yield self.at_value(error.path, "E105", message, hint)

    def count(self, error: Violation) -> Iterator[Found]:
        schema = error.schema
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        bound = least if len(error.value) < least else most
        wanted = f"{'exactly' if least == most else 'at least' if bound == least else 'at most'} {bound}"
        values = "1 value" if len(error.value) == 1 else f"{len(error.value) or 'no'} values"
        message = f"{values} where {wanted} {'is' if bound == 1 else 'are'} expected"
        yield Found(error.path, at(self.values[error.path], "E105", error.path, message, like(schema)), False, 2)

    def missing(self, error: Violation) -> Iterator[Found]:
        for key in error.wanted:
            if key not in error.value:
                yield self.at_key(
                    error.path, "E106", f"`{key}` is missing", _example(self.schema_at(error.path, key), key)
                )

    def missing_with(self, error: Violation) -> Iterator[Found]:
        for key, needed in error.wanted.items():
            for other in needed if key in error.value else ():
                if other not in error.value:
                    yield self.at_key(error.path, "E106", f"`{other}` is missing: {key} needs it")

    def none(self, error: Violation) -> Iterator[Found]:
        yield self.at_key(error.path, "E106", "there must be at least one", "write a name and what it stands for")

    def load_time(self, error: Violation) -> Iterator[Found]:
        message, hint = "a template file is chosen when the model is loaded", "put it under models.<name>.template"
        yield self.at_key(error.path, "E111", message, hint, spoils=True)

    def unavailable(self, error: Violation) -> Iterator[Found]:
        hint = "delete it, or give it a name beginning with x-"
        yield self.at_key(error.path, "E110", "not available in this version", hint)

    def bad_name(self, error: Violation) -> Found:
        hint = error.schema["description"]
        return self.at_key((*error.path, error.value), "E112", "not a name that can be used here", hint, spoils=True)

    def unknown(self, error: Violation) -> Iterator[Found]:
        schema = error.schema
        known = schema.get("properties", ANYWHERE)
        for key in error.value:
            if key not in known and not key.startswith("x-"):
                yield self.unknown_key(schema, (*error.path, key))

    def unknown_key(self, schema: JsonSchema, path: Path) -> Found:
        key = cast(str, path[-1])
        owner = schema.get("x-request-time")
        if owner and key in self.schema.resolve(self.schema.root["$defs"]["model"])["properties"]:
            hint = "put it under models.<name>; for another setting add another model"
            return self.at_key(path, "E111", f"{owner} holds request-time keys only", hint, spoils=True)
        return self.at_key(path, "E102", "unknown key", self.meant(key, schema, path), spoils=True)

    def meant(self, key: str, schema: JsonSchema, path: Path) -> str:
        siblings = schema.get("properties", ANYWHERE)
        near = nearest(key, siblings)
        homes = [_shown(home, path) for home in self.schema.homes(key)]
        if homes and (near is None or abs(len(near) - len(key)) > 1):
            home = _closest(homes)
            return f"this key belongs under `{home}`" if home else "this key belongs at the top level of the file"
        if near:
            return f"did you mean {near}?"
        usable = [n for n, below in siblings.items() if self.schema.resolve(below).get("x-available", True)]
        return f"known here: {', '.join(usable)}" if 0 < len(usable) <= 6 else ""

    def schema_at(self, path: Path, key: str) -> JsonSchema | None:
        """The schema of a key of the object at a path of the file."""
        schema: JsonSchema | None = self.schema.root
        for part in (*path, key):
            if schema is not None and isinstance(part, int):
                items = self.schema.branch(schema, list)
                schema = self.schema.resolve(items["items"]) if items and "items" in items else None
            elif schema is not None:
                of_object = self.schema.branch(schema, dict)
                schema = self.schema.below(of_object, part) if of_object and isinstance(part, str) else None
        return schema


Row = Callable[[Wording, Violation], Iterable[Found]]

_ROWS: Mapping[str, Row] = {
    "type": Wording.wrong_type,
    "x-unit": Wording.quantity,
    **dict.fromkeys(
        ("const", "enum", "pattern", "minLength", "minimum", "maximum", "exclusiveMinimum"), Wording.not_allowed
    ),
    **dict.fromkeys(("minItems", "maxItems"), Wording.count),
    "required": Wording.missing,
    "minProperties": Wording.none,
    "additionalProperties": Wording.unknown,
    "dependentRequired": Wording.missing_with,
    "not": Wording.load_time,
    "x-available": Wording.unavailable,
}

_REFUSALS: Mapping[str, Callable[[Violation, JsonSchema, str], tuple[str, str]]] = {
    "const": lambda error, schema, shown: (f"expected {expected(schema)}, got {shown}", ""),
    "enum": lambda error, schema, shown: not_one_of(error.value, schema, shown),
    "pattern": lambda error, schema, shown: (f"{shown} is not {expected(schema)}", ""),
    "minLength": lambda error, schema, shown: ("empty text", like(schema)),
    "minimum": lambda error, schema, shown: out_of_range("small", f"at least {_amount(error.wanted, schema)}", shown),
    "exclusiveMinimum": lambda error, schema, shown: out_of_range("small", f"above {error.wanted}", shown),
    "maximum": lambda error, schema, shown: out_of_range("large", f"at most {error.wanted}", shown),
}


def _amount(wanted: float, schema: JsonSchema) -> str:
    """A bound as it is written; durations are compared in seconds."""
    if not schema.get("x-of", "").startswith("duration"):
        return str(wanted)
    return f"{wanted:g}s" if wanted >= 1 else f"{wanted * 1000:g}ms"


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "an object"


def _example(schema: JsonSchema | None, key: str) -> str:
    if schema is None:
        return ""
    if "const" in schema:
        return f"write {key}: {show(schema['const'])}"
    examples = schema.get("examples")
    return f"write {key}: {flow(examples[0])}" if examples else ""


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
    return min(homes, key=lambda home: home[0])[1]
