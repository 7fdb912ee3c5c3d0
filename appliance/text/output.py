"""Generated text as deltas with their places in it; white space waits for what follows. PURE."""

from collections.abc import Callable
from typing import NamedTuple

from appliance.text.reader import OpenCall
from appliance.vocab.event import Delta, ReasoningDelta, TextDelta, ToolCallDelta

_HELD_SPACE = 8
"""So much white space waits for whether a tag follows: constant memory against a model that writes only that."""


class Piece(NamedTuple):
    """A delta and the characters of the generated text it stands for: [start, end)."""

    start: int
    end: int
    delta: Delta


class Output:
    """One answer's pieces. The text is told from its beginning to its end, each part as what it is; `new_id` makes
    the id of a call.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.resolved = 0
        """Characters of the text that were told."""
        self.calls = 0
        self._new_id = new_id
        self._space = ""
        self._pieces: list[Piece] = []

    def markup(self, length: int) -> None:
        """So many characters are nobody's, or those of calls."""
        self.resolved += length

    def text(self, text: str, *, hold_space: bool) -> None:
        """What comes next is answer; with `hold_space` white space at its end waits for what follows."""
        self._say(TextDelta, text, hold_space=hold_space)

    def reasoning(self, text: str) -> bool:
        """What comes next is reasoning; whether any of it was given out."""
        return self._say(ReasoningDelta, text, hold_space=True)

    def call(self, call: OpenCall) -> None:
        """Give out what of a call was not yet; its characters are told as markup."""
        text = "".join(call.arguments[call.sent :])
        call.sent = len(call.arguments)
        if call.index is not None:
            delta = ToolCallDelta(call.index, arguments=text)
        else:
            call.index = self.calls
            self.calls += 1
            self.drop_space()
            delta = ToolCallDelta(call.index, self._new_id(), call.name, text)
        self._pieces.append(Piece(self.resolved, self.resolved, delta))

    def drop_space(self) -> None:
        """The white space that waits is nobody's."""
        self._space = ""

    def release(self) -> None:
        """The white space that waits is the answer's."""
        if self._space:
            text, self._space = self._space, ""
            self._pieces.append(Piece(self.resolved - len(text), self.resolved, TextDelta(text)))

    def take(self) -> list[Piece]:
        """What was given out since the last time."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def _say(self, kind: type[TextDelta] | type[ReasoningDelta], text: str, *, hold_space: bool) -> bool:
        self.resolved += len(text)
        keep = 0
        if self._space or (hold_space and text[-1].isspace()):
            text = self._space + text
            keep = min(len(text) - len(text.rstrip()), _HELD_SPACE) if hold_space else 0
        self._space = ""
        if keep:
            text, self._space = text[:-keep], text[-keep:]
        if text:
            end = self.resolved - keep
            self._pieces.append(Piece(end - len(text), end, kind(text)))
        return bool(text)
