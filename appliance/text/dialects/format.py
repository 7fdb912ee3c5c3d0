"""What a tool-call format is."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

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


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Calls begin with one of `openers`; `read` reads on from there.

    `markers` are the tags it mentions beside the openers: where they are special tokens of a tokenizer, their text is
    shown to `read`. Where a prompt ends with `start`, the answer begins as if that opener had just been read.
    With `frames` the openers count inside reasoning too: the format says itself what is reasoning.
    """

    name: str
    aliases: tuple[str, ...] = ()
    openers: tuple[Opener, ...] = ()
    read: Callable[[Reader], Steps[Landing | None]] = no_calls
    markers: tuple[str, ...] = ()
    start: str = ""
    frames: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags whose text must be seen where they are special tokens."""
        return (*(opener.text for opener in self.openers if opener.where is Where.ANYWHERE), *self.markers)


def anywhere(*texts: str) -> tuple[Opener, ...]:
    return tuple(Opener(text) for text in texts)


def at_line(*texts: str) -> tuple[Opener, ...]:
    return tuple(Opener(text, Where.LINE) for text in texts)
