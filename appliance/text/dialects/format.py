"""What a tool-call format is."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from appliance.text.forms import Form
from appliance.text.reader import Landing, Reader, Steps


class Where(Enum):
    """Where an opener counts."""

    ANYWHERE = auto()
    LINE = auto()
    """At the beginning of a line only, for openers that are ordinary text elsewhere."""


@dataclass(frozen=True, slots=True)
class Opener:
    text: str
    where: Where = Where.ANYWHERE


def no_calls(reader: Reader) -> Steps[Landing | None]:
    return None
    yield


Written = Sequence[tuple[str, Any]]
"""Calls: names and arguments."""
Write = Callable[[Written], str]


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Calls begin with one of `openers`; `read` reads on from there.

    `markers` are the tags it mentions beside the openers: where they are special tokens of a tokenizer, their text is
    shown to `read`. Where a prompt ends with `start`, the answer begins as if that opener had just been read.
    With `frames` the openers count inside reasoning too: the format says itself what is reasoning.
    `write` puts calls of the past into text, for templates that do not. `form` is what a call is held to.
    """

    name: str
    aliases: tuple[str, ...] = ()
    openers: tuple[Opener, ...] = ()
    read: Callable[[Reader], Steps[Landing | None]] = no_calls
    markers: tuple[str, ...] = ()
    start: str = ""
    frames: bool = False
    write: Write | None = None
    form: Form | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags whose text must be seen where they are special tokens."""
        return (*(opener.text for opener in self.openers if opener.where is Where.ANYWHERE), *self.markers)


def anywhere(*texts: str) -> tuple[Opener, ...]:
    return tuple(Opener(text) for text in texts)


def at_line(*texts: str) -> tuple[Opener, ...]:
    return tuple(Opener(text, Where.LINE) for text in texts)


def json_text(value: Any) -> str:
    """JSON as models write it."""
    return json.dumps(value, ensure_ascii=False)


def as_objects(calls: Written) -> str:
    """A list of objects with names and arguments."""
    return json_text([{"name": name, "arguments": arguments} for name, arguments in calls])
