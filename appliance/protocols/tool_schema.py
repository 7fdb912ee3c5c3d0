"""Whether a tool's `parameters` is a JSON schema a model can be held to; says where it is not."""

from collections.abc import Callable, Iterator
from typing import Any

from appliance.errors import BadRequest

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})


def check_schema(name: str, schema: Any) -> None:
    """Raises BadRequest with the JSON path of the first keyword that is not what JSON Schema says.

    `schema` is nested within bounds already; unknown keywords are free.
    """
    todo: list[tuple[str, Any]] = [(name, schema)]
    while todo:
        place, node = todo.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            raise BadRequest(f"`{place}` must be a JSON schema: an object, true or false", param=place)
        for keyword in node.keys() & _KEYWORDS.keys():
            todo.extend(_KEYWORDS[keyword](f"{place}.{keyword}", node[keyword]))


Subschemas = Iterator[tuple[str, Any]]


def _one(place: str, value: Any) -> Subschemas:
    yield place, value


def _map(place: str, value: Any) -> Subschemas:
    _need(isinstance(value, dict), place, "an object of schemas")
    for key, child in value.items():
        yield f"{place}.{key}", child


def _some(place: str, value: Any) -> Subschemas:
    _need(isinstance(value, list) and len(value) > 0, place, "a non-empty list of schemas")
    for at, child in enumerate(value):
        yield f"{place}[{at}]", child


def _items(place: str, value: Any) -> Subschemas:
    return _some(place, value) if isinstance(value, list) else _one(place, value)


def _plain(must_be: str, holds: Callable[[Any], bool]) -> Callable[[str, Any], Subschemas]:
    def check(place: str, value: Any) -> Subschemas:
        _need(holds(value), place, must_be)
        return iter(())

    return check


def _need(holds: bool, place: str, must_be: str) -> None:
    if not holds:
        raise BadRequest(f"`{place}` must be {must_be}", param=place)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(one, str) and one in _TYPES for one in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


_number = _plain("a number", _is_number)
_count = _plain("an integer of at least 0", _is_count)
_text = _plain("a string", lambda value: isinstance(value, str))

_KEYWORDS: dict[str, Callable[[str, Any], Subschemas]] = {
    "type": _plain(f"one of {', '.join(sorted(_TYPES))}, or a list of them", _is_type),
    "properties": _map,
    "patternProperties": _map,
    "$defs": _map,
    "definitions": _map,
    "dependentSchemas": _map,
    "items": _items,
    "prefixItems": _some,
    "additionalProperties": _one,
    "propertyNames": _one,
    "contains": _one,
    "not": _one,
    "if": _one,
    "then": _one,
    "else": _one,
    "anyOf": _some,
    "oneOf": _some,
    "allOf": _some,
    "required": _plain("a list of strings", _is_strings),
    "enum": _plain("a non-empty list", lambda value: isinstance(value, list) and len(value) > 0),
    "$ref": _text,
    "pattern": _text,
    "description": _text,
    "title": _text,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": _number,
    "minLength": _count,
    "maxLength": _count,
    "minItems": _count,
    "maxItems": _count,
    "minProperties": _count,
    "maxProperties": _count,
}
