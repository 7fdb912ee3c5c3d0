"""The text of a configuration file in which a key expires on a day, all else as it was written. PURE."""

from datetime import date
from typing import Any

from appliance.config.problem import Place
from appliance.config.source import Mapping, Node, Scalar, Sequence, parse

FIELD = "expires"


class NotEditable(ValueError):
    """The key is written in a way that cannot be changed for sure; somebody has to do it by hand."""


def key_in(text: str, file: str, name: str) -> Mapping | None:
    """The key as this file says it, if it does."""
    node, _ = parse(text, file)
    for part in ("security", "keys", name):
        if not isinstance(node, Mapping) or part not in node.entries:
            return None
        node = node.entries[part].value
    return node if isinstance(node, Mapping) else None


def expired(text: str, file: str, name: str, day: date) -> str:
    """The text with the key's `expires` set. Raises NotEditable where that would not be all that changes."""
    key = key_in(text, file, name)
    if key is None:
        raise NotEditable(f"{file} does not hold the key {name}")
    changed = _with(text, key, day.isoformat())
    before, after = _plain(parse(text, file)[0]), _plain(parse(changed, file)[0])
    before["security"]["keys"][name][FIELD] = day.isoformat()
    if before != after:
        raise NotEditable(f"the key {name} is made of parts that others may share")
    return changed


def _with(text: str, key: Mapping, day: str) -> str:
    if FIELD in key.entries:
        place = key.entries[FIELD].value.place
        start = _offset(text, place)
        return f"{text[:start]}{day}{text[start + place.end - place.col :]}"
    start = _offset(text, key.place)
    if text[start : start + 1] == "{":
        named = f'"{FIELD}": "{day}"' if text[start + 1 :].lstrip().startswith('"') else f"{FIELD}: {day}"
        return f"{text[: start + 1]}{named}, {text[start + 1 :]}"
    return f"{text[:start]}{FIELD}: {day}\n{' ' * (key.place.col - 1)}{text[start:]}"


def _offset(text: str, place: Place) -> int:
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + place.col - 1


def _plain(node: Node | None) -> Any:
    match node:
        case Mapping():
            return {name: _plain(entry.value) for name, entry in node.entries.items()}
        case Sequence():
            return [_plain(item) for item in node.items]
        case Scalar():
            return node.text
    return None
