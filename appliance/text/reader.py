"""What a format's reader works with: the text behind an opener as it arrives, and the calls found in it.

A reader is a generator that yields where it needs more text. It reads from the window, so that what is read
leaves the window at once: time is linear however the text is split. Where it refuses, the window begins with the
first character it could not accept, whatever the split.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
Schema = Mapping[str, Any]

UNDECLARED = "undeclared tool"
_LONGEST_NAME = 256
_LOOKAHEAD_SPACE = 64


class Landing(Enum):
    """What follows behind what a reader has read."""

    ANSWER = auto()
    REASONING = auto()


class NotACall(Exception):
    """It does not read as a call of this format to one of the tools; `args[0]` says why."""


class Cut(Exception):
    """The text ended where more was needed."""


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call as far as it is read: its arguments joined are JSON text."""

    name: str
    arguments: list[str] = field(default_factory=list)
    index: int | None = None
    """Its number in the answer, once a first piece of it was sent."""
    sent: int = 0
    """So many of `arguments` were sent."""


class Reader:
    """`declared` are the parameters' schemas of the tools that may be called.

    `held` is the text read since the last whole call, `whole` are the calls not yet taken, `current` is being read.
    """

    def __init__(self, opener: str, declared: Mapping[str, Schema], *, prompted: bool = False) -> None:
        """With `prompted` the opener stands in the prompt and is no text of the answer."""
        self.opener = opener
        self.window = ""
        self.closed = False
        self.held: list[str] = [] if prompted else [opener]
        self.markup = 0
        """Characters that turned out to be markup or calls."""
        self.framed = False
        """Whether there were any."""
        self.whole: list[OpenCall] = []
        self.current: OpenCall | None = None
        self.called = False
        """Whether a call read here was given out."""
        self._declared = declared

    # --- text

    def consume(self, count: int) -> str:
        """Read `count` characters of the window."""
        text, self.window = self.window[:count], self.window[count:]
        if text:
            self.held.append(text)
        return text

    def unread(self, text: str) -> None:
        """Read `text`, which was read last, again."""
        assert self.held[-1] == text
        self.window = self.held.pop() + self.window

    def take(self) -> str:
        """Give up the window, unread."""
        text, self.window = self.window, ""
        return text

    def drop(self) -> None:
        """What was read so far is markup, whatever follows."""
        self.markup += sum(map(len, self.held))
        self.framed = True
        self.held.clear()

    def more(self) -> Steps[None]:
        """Wait for more text. Raises Cut."""
        if self.closed:
            raise Cut
        yield

    def space(self) -> Steps[None]:
        """Skip white space, if there is any."""
        while True:
            rest = self.window.lstrip()
            self.consume(len(self.window) - len(rest))
            if rest or self.closed:
                return
            yield

    def option(self, *texts: str) -> Steps[str | None]:
        """Read one of `texts`, none of which begins another, or nothing."""
        while True:
            for text in texts:
                if self.window.startswith(text):
                    return self.consume(len(text)) and text
            if not any(text.startswith(self.window) for text in texts):
                return None
            if self.closed:
                # Half a closing tag behind a whole call is no text for anybody; one character may be.
                self.consume(len(self.window) if len(self.window) > 1 else 0)
                return None
            yield

    def literal(self, *texts: str) -> Steps[str]:
        """Read one of `texts`. Raises NotACall, Cut."""
        while True:
            for text in texts:
                if self.window.startswith(text):
                    return self.consume(len(text)) and text
            if not any(text.startswith(self.window) for text in texts):
                raise NotACall("malformed call")
            yield from self.more()

    def char(self) -> Steps[str]:
        """The next character, not read. Raises Cut."""
        while not self.window:
            yield from self.more()
        return self.window[0]

    def until(self, *ends: str, within: int | None = None) -> Steps[tuple[str, str]]:
        """The text up to the first of `ends`, and which it was. Raises NotACall where it is not near, Cut."""
        parts: list[str] = []
        room = within
        keep = max(map(len, ends)) - 1
        try:
            while True:
                at, end = min(((self.window.find(end), end) for end in ends if end in self.window), default=(-1, ""))
                ready = at if at >= 0 else max(0, len(self.window) - keep)
                if room is not None and ready > room:
                    self.consume(room)
                    raise NotACall("malformed call")
                parts.append(self.consume(ready))
                if room is not None:
                    room -= ready
                if at >= 0:
                    self.consume(len(end))
                    return "".join(parts), end
                yield from self.more()
        except Cut:
            raise Cut("".join(parts) + self.window) from None

    def follows(self, *texts: str) -> Steps[bool]:
        """Whether one of `texts` comes next, behind a little white space. Reads nothing. Raises Cut."""
        while True:
            rest = self.window.lstrip()
            if len(self.window) - len(rest) > _LOOKAHEAD_SPACE:
                return False
            if rest.startswith(texts):
                return True
            if not any(text.startswith(rest) for text in texts):
                return False
            yield from self.more()

    # --- calls

    def name(self, *ends: str) -> Steps[str]:
        """Read the name of a tool up to one of `ends`, begin its call, and tell which end. Raises NotACall, Cut."""
        name, end = yield from self.until(*ends, within=_LONGEST_NAME)
        self.begin(name.strip())
        return end

    def begin(self, name: str) -> None:
        """A call to `name`. Raises NotACall where there is no such tool."""
        if name not in self._declared:
            raise NotACall(f"{UNDECLARED} {name[:_LONGEST_NAME]!r}" if name else "malformed call")
        self.current = OpenCall(name)

    def schema(self) -> Schema:
        """The parameters of the tool that is being called."""
        assert self.current is not None
        return self._declared[self.current.name]

    def argue(self, text: str) -> None:
        """More of the arguments' JSON text."""
        assert self.current is not None
        if text:
            self.current.arguments.append(text)

    def end(self) -> None:
        """The call is whole."""
        assert self.current is not None
        self.whole.append(self.current)
        self.current = None
        self.drop()
