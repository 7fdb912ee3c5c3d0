"""Words about scalars: what a schema expects, what stands there, and what was probably meant."""

import json
from typing import Any

from appliance.config import source
from appliance.config.schema import JsonSchema, types_of
from appliance.config.source import Scalar
from appliance.config.suggest import nearest
from appliance.config.units import NotAQuantity

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

_NEED_QUOTES = frozenset(",{}[]#&*!|>'\"@`")

_MOST_CHOICES = 20
"""More are not told one by one."""


def not_a_quantity(fault: NotAQuantity, scalar: Scalar) -> tuple[str, str]:
    """Message and hint, without what was substituted."""
    return fault.message if scalar.written is None else f"{scalar.written} gives no such quantity", fault.hint


def not_one_of(value: Any, schema: JsonSchema, shown: str) -> tuple[str, str]:
    choices = schema["enum"]
    near = nearest(value, choices) if isinstance(value, str) else None
    hint = f"did you mean {near}?" if near else ""
    if len(choices) > _MOST_CHOICES:
        return f"{shown} is none of the {len(choices)} words there are", hint or "the schema lists them"
    return f"{shown} is not one of {', '.join(map(show, choices))}", hint


def out_of_range(how: str, bound: str, shown: str) -> tuple[str, str]:
    return f"{shown} is too {how}", f"it must be {bound}"


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
        choices = schema["enum"]
        return (
            f"one of {', '.join(map(show, choices))}"
            if len(choices) <= _MOST_CHOICES
            else "one of the schema's words"
        )
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
    "rate": "a rate like 60/m",
    "bound": "a bound like >24k",
    "requests_bound": "a bound like >4",
    "load_bound": "a bound like >80%",
    "window": "a part of the day like 22:00-07:00",
    "date": "a day like 2027-06-30",
}


def like(schema: JsonSchema) -> str:
    """What to write, by an example, where what is expected does not say it already."""
    examples = schema.get("examples")
    says_it = {"x-expected", "enum", "const", "x-unit"} & schema.keys()
    if examples and not says_it:
        return f"write it like {flow(examples[0])}"
    keys = [key for key, below in schema.get("properties", {}).items() if below.get("x-available", True)]
    return f"write its keys: {', '.join(keys[:4])}{', …' if len(keys) > 4 else ''}" if keys else ""


def flow(value: Any) -> str:
    """A value as it would be written on one line of a deploy file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return show(value, quoted=isinstance(value, str) and (not value or bool(set(value) & _NEED_QUOTES)))


def type_hint(value: Any, schema: JsonSchema, scalar: Scalar) -> str:
    types = types_of(schema)
    if "boolean" in types and isinstance(value, str) and value.lower() in _FALSE_FRIENDS:
        return f"write {_FALSE_FRIENDS[value.lower()]}"
    if "string" in types and isinstance(value, bool | int | float) and scalar.written is None:
        return f'quote it: "{scalar.text}"'
    if "array" in types and schema.get("minItems", 0) <= 1:
        return f"write [{show(value, quoted=not scalar.plain)}]"
    if not scalar.plain and not isinstance(source.core(scalar.text), str):
        return "delete the quotes"
    return like(schema)


def show(value: Any, quoted: bool = False) -> str:
    plain = isinstance(value, str) and value.isprintable() and not quoted
    text = value if plain else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
