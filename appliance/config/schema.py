"""A JSON schema of ours ready for use: references resolved, keys findable by name, the library's errors.

Besides the standard keywords it evaluates two of ours: `x-unit` (quantities) and `x-available: false`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from appliance.config.problem import Path
from appliance.config.units import UNITS, NotAQuantity

JsonSchema = Mapping[str, Any]

ANYWHERE: JsonSchema = {}


@dataclass(frozen=True, slots=True)
class Violation:
    """One keyword of a schema that a value at a path does not hold; `wanted` is what the keyword says.

    `of_name`: it is about a key's name, which is the value. `cause` says why a text is no quantity. `branches` are
    the violations of each alternative of `anyOf`, with the alternative's number.
    """

    keyword: str
    path: Path
    schema: JsonSchema
    value: Any
    wanted: Any
    of_name: bool
    cause: NotAQuantity | None
    branches: tuple[tuple[int, "Violation"], ...]


def _violation(error: Any) -> Violation:
    route = tuple(error.schema_path)
    return Violation(
        keyword=error.validator,
        path=tuple(error.absolute_path),
        schema=error.schema,
        value=error.instance,
        wanted=error.validator_value,
        of_name=route[-2:-1] == ("propertyNames",),
        cause=error.cause,
        branches=tuple((below.relative_schema_path[0], _violation(below)) for below in error.context),
    )


class Schema:
    """`resolve` and `below` give schemas with their references laid under their own keywords."""

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
        properties = schema.get("properties", ANYWHERE)
        if key in properties:
            return self.resolve(properties[key])
        additional = schema.get("additionalProperties", False)
        return self.resolve(additional) if isinstance(additional, Mapping) else None

    def branch(self, schema: JsonSchema, kind: type) -> JsonSchema | None:
        """The schema of a value of a Python type, where `anyOf` has one for objects, lists and scalars each."""
        if "type" in schema or "anyOf" not in schema:
            return schema
        wanted = "array" if kind is list else "object" if kind is dict else None
        for branch in map(self.resolve, schema["anyOf"]):
            compound = {"array", "object"} & set(types_of(branch))
            if (wanted in compound) if wanted else not compound:
                return branch
        return None

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
        for key, value in schema.get("properties", ANYWHERE).items():
            resolved = self.resolve(value)
            yield (*path, key), resolved
            yield from self._properties(resolved, (*path, key))
        if isinstance(additional := schema.get("additionalProperties"), Mapping):
            yield from self._properties(additional, (*path, "*"))
        if isinstance(items := schema.get("items"), Mapping):
            yield from self._properties(items, (*path, "*"))

    def violations(self, value: Any) -> Iterator["Violation"]:
        """Everything the library finds wrong with a plain value."""
        return map(_violation, self._validator.iter_errors(value))

    @cached_property
    def _validator(self) -> Any:
        return _dialect()(self.root)


def types_of(schema: JsonSchema) -> tuple[str, ...]:
    """`type` as a tuple, empty where the schema leaves it open."""
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _dialect() -> Any:
    # Imported here: 35 ms that commands without a deploy file need not pay.
    from jsonschema import Draft202012Validator, validators

    finite = Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number)
    ours = {"x-unit": _unit, "x-available": _available}
    return validators.extend(Draft202012Validator, ours, type_checker=finite)  # type: ignore[no-untyped-call]


def _is_number(checker: Any, value: Any) -> bool:
    """JSON has neither infinity nor NaN; YAML has both."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _unit(validator: Any, unit: str, value: Any, schema: JsonSchema) -> Iterator[Any]:
    """The text is a quantity within the bounds, which are in the unit's base: tokens, bytes, seconds."""
    from jsonschema import ValidationError

    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return
    try:
        amount = UNITS[unit](value)
    except NotAQuantity as fault:
        yield ValidationError(fault.message, cause=fault)
        return
    bounds = {key: schema[key] for key in ("minimum", "maximum", "exclusiveMinimum") if key in schema}
    if isinstance(value, str):
        yield from validator.descend(amount, {**bounds, "x-of": unit})


def _available(validator: Any, available: bool, value: Any, schema: JsonSchema) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not available:
        yield ValidationError("not available in this version")
