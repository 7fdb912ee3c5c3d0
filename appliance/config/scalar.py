"""One scalar against its schema: the value as it is used from here on, or what is wrong with it."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from appliance.config import source
from appliance.config.source import Scalar
from appliance.config.suggest import nearest
from appliance.config.units import UNITS, NotAQuantity

JsonSchema = Mapping[str, Any]

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
class Fault:
    code: str
    message: str
    hint: str = ""


def read(value: Any, schema: JsonSchema, types: tuple[str, ...], scalar: Scalar) -> Any:
    """The value as it is used from here on, or what is wrong with it."""
    shown = scalar.written if scalar.written is not None else show(value, quoted=not scalar.plain)
    if (unit := schema.get("x-unit")) and not isinstance(value, bool):
        try:
            value = UNITS[unit](value)
        except NotAQuantity as fault:
            message = fault.message if scalar.written is None else f"{scalar.written} gives no such quantity"
            return Fault("E105", message, fault.hint)
    elif not is_a(value, types):
        return Fault("E104", f"expected {expected(schema)}, got {shown}", _type_hint(value, schema, types, scalar))
    elif isinstance(value, float) and "number" not in types:
        value = int(value)
    return _bounds(value, schema, shown) or value


def _bounds(value: Any, schema: JsonSchema, shown: str) -> Fault | None:
    if "const" in schema and value != schema["const"]:
        return Fault("E105", f"expected {expected(schema)}, got {shown}")
    if "enum" in schema and value not in schema["enum"]:
        near = nearest(value, schema["enum"]) if isinstance(value, str) else None
        hint = f"did you mean {near}?" if near else ""
        return Fault("E105", f"{shown} is not one of {', '.join(schema['enum'])}", hint)
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return Fault("E105", "empty text")
        if "pattern" in schema and not matches(schema["pattern"], value):
            return Fault("E105", f"{shown} is not {expected(schema)}")
        return None
    return _range(value, schema, shown) if isinstance(value, int | float) else None


def _range(value: float, schema: JsonSchema, shown: str) -> Fault | None:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if "x-unit" not in schema and not math.isfinite(value):
        return Fault("E105", f"{shown} is not a finite number")
    if value < low or value <= schema.get("exclusiveMinimum", -math.inf):
        least = f"above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else f"at least {low}"
        return Fault("E105", f"{shown} is too small", f"it must be {least}")
    if value > high:
        return Fault("E105", f"{shown} is too large", f"it must be at most {high}")
    return None


def types_of(schema: JsonSchema) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def is_a(value: Any, types: tuple[str, ...]) -> bool:
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


def expected(schema: JsonSchema) -> str:
    if "x-expected" in schema:
        return str(schema["x-expected"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "const" in schema:
        return show(schema["const"])
    if "x-unit" in schema:
        return _QUANTITIES[schema["x-unit"]]
    return " or ".join(_KINDS[kind] for kind in types_of(schema) if kind != "null")


_QUANTITIES = {
    "duration": "a duration like 15s",
    "duration_or_never": "a duration like 15m, or never",
    "bytes": "a size like 8GiB",
    "memory": "an amount like 8GiB or 75%",
    "tokens": "a number of tokens like 4096 or 32k",
}


def _type_hint(value: Any, schema: JsonSchema, types: tuple[str, ...], scalar: Scalar) -> str:
    if "boolean" in types and isinstance(value, str) and value.lower() in _FALSE_FRIENDS:
        return f"write {_FALSE_FRIENDS[value.lower()]}"
    if "string" in types and isinstance(value, bool | int | float) and scalar.written is None:
        return f'quote it: "{scalar.text}"'
    if "array" in types and schema.get("minItems", 0) <= 1:
        return f"write [{show(value, quoted=not scalar.plain)}]"
    if not scalar.plain and not isinstance(source.core(scalar.text), str):
        return "delete the quotes"
    return ""


def show(value: Any, quoted: bool = False) -> str:
    plain = isinstance(value, str) and value.isprintable() and not quoted
    text = value if plain else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def matches(pattern: str, text: str) -> bool:
    return _pattern(pattern).search(text) is not None
