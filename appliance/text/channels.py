"""Which channel generated text belongs to: answer, reasoning or tool call; and where a stop string ends it.

Stop strings end the answer only: inside reasoning and tool calls they are ordinary text. White space between
reasoning, calls and answer belongs to none of them and is dropped.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from appliance.text.dialects.format import ToolFormat
from appliance.text.dialects.none import FORMAT as NO_TOOLS
from appliance.text.reasoning.format import Reasoning
from appliance.text.reasoning.none import REASONING as NO_REASONING
from appliance.text.scanner import Scanner
from appliance.vocab.event import Delta, ReasoningDelta, TextDelta, ToolCallDelta

_HELD_SPACE = 8
"""So much white space waits for whether a tag follows: constant memory against a model that writes only that."""


class Piece(NamedTuple):
    """A delta and the characters of the generated text it stands for: [start, end)."""

    start: int
    end: int
    delta: Delta


class _Mode(Enum):
    OPENING = auto()
    """Nothing but white space has come: the only place where reasoning may open."""
    ANSWER = auto()
    REASONING = auto()
    CALL = auto()


class Channels:
    """One answer. Feed text in any split: the deltas fold to the same.

    `declared` are the tools that may be called (others are content), `new_id` makes the id of a call,
    `inside` says that the prompt already opened the reasoning. After a stop string `stopped` is set and
    everything later is ignored.
    """

    def __init__(
        self,
        *,
        stops: Iterable[str] = (),
        reasoning: Reasoning = NO_REASONING,
        tools: ToolFormat = NO_TOOLS,
        declared: Iterable[str] = (),
        new_id: Callable[[], str],
        inside: bool = False,
    ) -> None:
        self.stopped: str | None = None
        self.calls = 0
        self.resolved = 0
        """Characters whose channel is decided."""
        self._stops = frozenset(stops)
        self._reasoning, self._tools = reasoning, tools
        self._declared = frozenset(declared)
        self._new_id = new_id
        self._scanners = {
            _Mode.OPENING: Scanner((*self._stops, reasoning.open, tools.open)),
            _Mode.ANSWER: Scanner((*self._stops, tools.open)),
            _Mode.REASONING: Scanner((reasoning.close, reasoning.open)),
            _Mode.CALL: Scanner((tools.close,)),
        }
        self._mode = _Mode.OPENING if reasoning.open else _Mode.ANSWER
        self._space = ""
        self._skipping = False
        self._reasoned = False
        self._call: list[str] = []
        self._out: list[Piece] = []
        if reasoning.open and (inside or reasoning.implied):
            self._enter(_Mode.REASONING)

    @property
    def reasoning(self) -> bool:
        """Whether the text now is reasoning."""
        return self._mode is _Mode.REASONING

    def feed(self, text: str, *, stops: bool = True) -> list[Delta]:
        """What the text so far decides; with `stops` false a stop string that ends here is ordinary text."""
        return [piece.delta for piece in self.pieces(text, stops=stops)]

    def close(self) -> list[Delta]:
        """The text is over: decide all that was held. A call that lacks only its closing tag counts."""
        return [piece.delta for piece in self.closing_pieces()]

    def pieces(self, text: str, *, stops: bool = True) -> list[Piece]:
        """As `feed`, with the place of each delta in the text."""
        while self.stopped is None and (text := self._skip(text)):
            mode = self._mode
            literal, match, rest = self._scanners[mode].scan(text)
            self._literal(literal)
            text = self._next(mode, match, rest, stops)
        return self._taken()

    def closing_pieces(self, *, stops: bool = True) -> list[Piece]:
        """As `close`, with the place of each delta in the text."""
        out: list[Piece] = []
        while self.stopped is None:
            mode = self._mode
            literal, match, rest = self._scanners[mode].close()
            if not literal and match is None:
                break
            self._literal(literal)
            out += self.pieces(self._next(mode, match, rest, stops), stops=stops)
        self._end()
        return out + self._taken()

    def _next(self, mode: _Mode, match: str | None, rest: str, stops: bool) -> str:
        """Act on what a scan found; the text to read on with."""
        if self._mode is not mode:  # the literal ended the opening: what follows is read again, as answer
            return (match if match is not None else self._scanners[mode].take()) + rest
        if match is not None:
            self._match(match, stops)
        return rest

    def _skip(self, text: str) -> str:
        if self._skipping:
            kept = text.lstrip()
            self.resolved += len(text) - len(kept)
            self._skipping = not kept
            return kept
        return text

    def _literal(self, text: str) -> None:
        if not text:
            return
        self.resolved += len(text)
        match self._mode:
            case _Mode.CALL:
                self._call.append(text)
            case _Mode.REASONING:
                self._emit(ReasoningDelta, text, hold_space=True)
            case _Mode.OPENING if text.isspace():
                self._emit(TextDelta, text, hold_space=True)
            case _:
                self._mode = _Mode.ANSWER
                self._emit(TextDelta, text, hold_space=bool(self._tools.open))

    def _match(self, tag: str, stops: bool) -> None:
        match self._mode:
            case _Mode.CALL:
                self.resolved += len(tag)
                self._end_call(tag)
            case _Mode.REASONING if tag == self._reasoning.close:
                self.resolved += len(tag)
                self._enter(_Mode.ANSWER)
            case _Mode.REASONING if not self._reasoned:
                self.resolved += len(tag)  # the model repeats the tag its prompt ended with
                self._enter(_Mode.REASONING)
            case _Mode.ANSWER | _Mode.OPENING if tag in self._stops:
                if stops:
                    self._release()
                    self.resolved += len(tag)
                    self.stopped = tag
                else:
                    self._literal(tag)
            case _Mode.OPENING if tag == self._reasoning.open:
                self.resolved += len(tag)
                self._enter(_Mode.REASONING)
            case _Mode.ANSWER | _Mode.OPENING:
                self.resolved += len(tag)
                self._mode = _Mode.CALL
            case _:
                self._literal(tag)

    def _enter(self, mode: _Mode) -> None:
        self._mode, self._skipping, self._space = mode, True, ""

    def _end_call(self, close: str) -> None:
        """`close` is the tag that came, empty where the text ended without one."""
        body = "".join(self._call)
        self._call.clear()
        calls = self._tools.parse(body)
        if calls and all(call.name in self._declared for call in calls):
            self._enter(_Mode.ANSWER)
            for call in calls:
                delta = ToolCallDelta(self.calls, self._new_id(), call.name, call.arguments)
                self._out.append(Piece(self.resolved, self.resolved, delta))
                self.calls += 1
            return
        self._mode = _Mode.ANSWER
        text = f"{self._space}{self._tools.open}{body}{close}"
        self._space = ""
        self._out.append(Piece(self.resolved - len(text), self.resolved, TextDelta(text)))

    def _emit(self, kind: type[TextDelta] | type[ReasoningDelta], text: str, *, hold_space: bool) -> None:
        """Give out `text`, the newest that is resolved, but for white space a tag may turn out to follow."""
        text = self._space + text
        keep = min(len(text) - len(text.rstrip()), _HELD_SPACE) if hold_space else 0
        text, self._space = text[: len(text) - keep], text[len(text) - keep :]
        self._reasoned = self._reasoned or (kind is ReasoningDelta and bool(text))
        if text:
            end = self.resolved - keep
            self._out.append(Piece(end - len(text), end, kind(text)))

    def _release(self) -> None:
        if self._space:
            text, self._space = self._space, ""
            self._out.append(Piece(self.resolved - len(text), self.resolved, TextDelta(text)))

    def _end(self) -> None:
        if self._mode is _Mode.CALL:
            self._end_call("")
        if self._mode is not _Mode.REASONING:
            self._release()
        self._space = ""

    def _taken(self) -> list[Piece]:
        out, self._out = self._out, []
        return out
