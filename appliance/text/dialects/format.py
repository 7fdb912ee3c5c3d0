"""What a tool-call format is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the model wrote it; `arguments` is the JSON text of an object."""

    name: str
    arguments: str


def no_calls(body: str) -> tuple[Call, ...] | None:
    return None


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Calls stand between `open` and `close`; without tags there are none.

    `parse` reads what stands between them; None means it is no call, and the text with its tags is content.
    """

    name: str
    aliases: tuple[str, ...] = ()
    open: str = ""
    close: str = ""
    parse: Callable[[str], tuple[Call, ...] | None] = no_calls
