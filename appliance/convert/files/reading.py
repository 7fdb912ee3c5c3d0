"""YAML of another tool as plain values, and its keys by a table."""

from collections.abc import Mapping
from typing import Any

from appliance.config import source
from appliance.config.problem import human
from appliance.config.source import Node, Scalar, Sequence
from appliance.convert.draft import CannotConvert, Draft, Item, carry
from appliance.convert.target import Table


def document(text: str, file: str) -> dict[str, Any]:
    """Raises CannotConvert with its problems where it is no YAML object."""
    tree, problems = source.parse(text, file)
    if problems or not isinstance(tree, source.Mapping):
        raise CannotConvert(human(problems) or f"{file} is not a YAML object")
    found = _plain(tree)
    assert isinstance(found, dict)
    return found


def _plain(node: Node) -> Any:
    match node:
        case Scalar():
            return source.natural(node)
        case Sequence():
            return [_plain(item) for item in node.items]
        case _:
            return {key: _plain(entry.value) for key, entry in node.entries.items()}


def mapping(value: Any, key: str) -> dict[str, Any]:
    """The object under a key, an empty one where there is none."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, dict) else {}


def objects(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects of the list under a key."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def carry_all(draft: Draft, given: Mapping[str, Any], table: Table, prefix: str, model: str) -> None:
    """Every key of an object by its row; a key of no table is lost. A null is a key that says nothing."""
    for key, value in given.items():
        row = table.get(key)
        if value is None:
            continue
        if row is None:
            draft.lose(f"{prefix}{key}", "no key of that tool that we know")
        else:
            carry(draft, Item(f"{prefix}{key}", value, row.secret), row, model)
