"""Where a bracketed value ends: brackets are counted, strings are skipped; its text is read as it arrives."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from appliance.text.reader import NotACall, Reader, Steps

_DEEPEST = 100
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Quoting:
    """`quotes` are what strings stand in, longest first; `outside` is what may stand beside strings and brackets.

    It may match whole strings too, where it has seen that they need no second look.
    """

    quotes: tuple[str, ...]
    outside: re.Pattern[str]
    escapes: bool = True

    def end(self, quote: str) -> re.Pattern[str]:
        """The next escape, or the end of a string."""
        return re.compile((r"\\.|" if self.escapes else "") + re.escape(quote), re.DOTALL)


Take = Callable[[str, bool], None]
"""Gets each piece of text, and whether it stands in a string."""


def balanced(reader: Reader, quoting: Quoting, take: Take) -> Steps[None]:
    """Read one value in brackets. Raises NotACall, Cut."""
    depth = 0
    while True:
        at, depth = _plain(reader.window, quoting.outside, depth)
        take(reader.consume(at), False)
        if not 0 < depth <= _DEEPEST:
            if depth == 0 and at > 0:
                return
            _refuse()
        if not reader.window:
            yield from reader.more()
        elif (quote := (yield from _quote(reader, quoting))) is not None:
            yield from string(reader, quoting, quote, take)
        else:
            _refuse()


def _plain(window: str, outside: re.Pattern[str], depth: int) -> tuple[int, int]:
    """How far brackets and plain text go, up to the value's end, and how deep they leave it."""
    at = 0
    while at < len(window):
        if window[at] in _OPENING:
            depth += 1
        elif window[at] in _CLOSING:
            depth -= 1
        elif run := outside.match(window, at):
            at = run.end()
            continue
        else:
            break
        at += 1
        if not 0 < depth <= _DEEPEST:
            break
    return at, depth


def string(reader: Reader, quoting: Quoting, quote: str, take: Take) -> Steps[None]:
    """Read a string with its quotes. Raises NotACall, Cut."""
    take((yield from reader.literal(quote)), True)
    end = quoting.end(quote)
    while True:
        at = _closing(end, reader.window, quote)
        if at >= 0:
            take(reader.consume(at + len(quote)), True)
            return
        take(reader.consume(_surely_inside(reader.window, quote, quoting.escapes)), True)
        yield from reader.more()


def _quote(reader: Reader, quoting: Quoting) -> Steps[str | None]:
    """The quote that begins here, once it is clear which."""
    while True:
        begun = [quote for quote in quoting.quotes if quote.startswith(reader.window[: len(quote)])]
        if not begun:
            return None
        if reader.window.startswith(begun[0]):
            return begun[0]
        if reader.closed:
            return next((quote for quote in begun if reader.window.startswith(quote)), None)
        yield


def _closing(end: re.Pattern[str], window: str, quote: str) -> int:
    for found in end.finditer(window):
        if found[0] == quote:
            return found.start()
    return -1


def _surely_inside(window: str, quote: str, escapes: bool) -> int:
    """How much of a window without the closing quote can be neither part of it nor an escape that goes on."""
    sure = max(0, len(window) - len(quote) + 1)
    if not escapes:
        return sure
    backslashes = len(window[:sure]) - len(window[:sure].rstrip("\\"))
    return sure - backslashes % 2


def _refuse() -> NoReturn:
    raise NotACall("malformed call")
