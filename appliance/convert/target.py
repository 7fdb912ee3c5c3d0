"""Where a setting of another tool goes: a key of ours, a piece of one, or the reason why there is none."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Takes = Literal["none", "one", "many", "maybe"]
"""How many words follow a flag; `many`: at least one; `maybe`: the next word, if it is not a flag itself."""

OMIT = object()
"""What a reader returns for a value that means the same as leaving our key out."""

Read = Callable[[Any], Any]
"""A value of the other tool as one of ours. Raises ValueError saying why it cannot be one."""


@dataclass(frozen=True, slots=True)
class Key:
    """`path` is dotted, `M` stands for the model; `but` is what of the meaning stays behind."""

    path: str
    read: Read
    but: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Several settings together make `path`; `name` is this one's role."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why there is no key."""

    text: str


Target = Key | Part | Reason


@dataclass(frozen=True, slots=True)
class Row:
    to: Target
    takes: Takes = "one"
    secret: bool = False


Table = Mapping[str, Row]


def rows(names: str, to: Target, takes: Takes = "one", *, secret: bool = False) -> list[tuple[str, Row]]:
    """The same row for several names, divided by spaces."""
    return [(name, Row(to, takes, secret)) for name in names.split()]


def table(*parts: Iterable[tuple[str, Row]]) -> Table:
    """Rows by name. A name that stands twice is a mistake of the table's writer."""
    found: dict[str, Row] = {}
    for part in parts:
        for name, row in part:
            assert name not in found, name
            found[name] = row
    return found
