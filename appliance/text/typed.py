"""Which JSON a parameter written as bare text becomes: its schema decides."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from appliance.text import python_call
from appliance.text.json_body import dump, loads
from appliance.text.reader import Schema

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DEEPEST_SCHEMA = 8


def json_of(text: str, schema: Schema, key: str) -> str:
    """JSON text of parameter `key` of a tool with these parameters. Text that does not fit its type is a string."""
    allowed = kinds(_parameter(schema, key), schema)
    if "string" in allowed and not ("null" in allowed and text.strip() in ("null", "None")):
        return dump(text)
    for kind, read in _READ.items():
        if (kind in allowed or not allowed) and (found := read(text.strip())) is not None:
            return found
    return dump(text)


def is_text(schema: Schema, key: str) -> bool:
    """Whether a parameter can only be a string."""
    return kinds(_parameter(schema, key), schema) == {"string"}


def _parameter(schema: Schema, key: str) -> Any:
    properties = schema.get("properties")
    found = properties.get(key) if isinstance(properties, Mapping) else None
    return schema.get("additionalProperties") if found is None else found


def kinds(schema: Any, root: Schema, depth: int = 0) -> set[str]:
    """The JSON types it allows; none where it leaves them open."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST_SCHEMA:
        return set()
    if "type" in schema:
        types = schema["type"]
        return {kind for kind in (types if isinstance(types, list) else [types]) if isinstance(kind, str)}
    if isinstance(reference := schema.get("$ref"), str):
        return kinds(target(reference, root), root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if isinstance(rows := schema.get(word), list):
            return set().union(*(kinds(row, root, depth + 1) for row in rows))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return {_TYPES[type(value)] for value in values if type(value) in _TYPES} if isinstance(values, list) else set()


def target(reference: str, root: Schema) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _null(text: str) -> str | None:
    return "null" if text in ("null", "None") else None


def _boolean(text: str) -> str | None:
    return text.lower() if text in ("true", "false", "True", "False") else None


def _number(text: str) -> str | None:
    return text if _NUMBER.fullmatch(text) else None


def _of(kind: type) -> Callable[[str], str | None]:
    """A list or an object, in JSON or as Python writes it."""

    def read(text: str) -> str | None:
        for load in (loads, python_call.value):
            try:
                found = load(text)
                return dump(found) if isinstance(found, kind) else None
            except ValueError:
                continue
        return None

    return read


_READ: dict[str, Callable[[str], str | None]] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
    "array": _of(list),
    "object": _of(dict),
}
_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    str: "string",
}
