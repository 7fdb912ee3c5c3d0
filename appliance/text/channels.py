"""Which channel generated text belongs to: answer, reasoning or tool call; and where a stop string ends it.

Stop strings end the answer only: inside reasoning and tool calls they are ordinary text. White space between
reasoning, calls and answer belongs to none of them and is dropped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, auto

from appliance.text.dialects.format import Opener, ToolFormat, Where
from appliance.text.dialects.none import FORMAT as NO_TOOLS
from appliance.text.output import Output, Piece
from appliance.text.reader import UNDECLARED, Cut, Landing, NotACall, OpenCall, Reader, Schema, Steps
from appliance.text.reasoning.format import Reasoning
from appliance.text.reasoning.none import REASONING as NO_REASONING
from appliance.text.scanner import Scanner
from appliance.text.surroundings import Fences, Surroundings
from appliance.vocab.event import Delta

_SLICE = 512
"""Text is read in slices of so many characters: what is left of a slice is copied at every step."""
_WARNINGS = 16
"""So many different warnings are kept."""


class _Mode(IntEnum):
    START = auto()
    """Nothing but white space has come: here reasoning may open."""
    FRESH = auto()
    """Nothing but white space since the reasoning or a call: here the answer's wrapper may open."""
    ANSWER = auto()
    REASONING = auto()
    CALL = auto()


_BLANK = (_Mode.START, _Mode.FRESH)
_LATER = {Where.ANYWHERE: "", Where.LINE: "\n"}
"""What stands before an opener behind other text."""


class Channels:
    """One answer. Feed text in any split: the deltas fold to the same.

    `declared` are the tools that may be called with the schemas of their parameters (calls of others are content),
    `new_id` makes the id of a call, `prompt` is how the prompt ends, special tokens included. The arguments of calls
    that a grammar has `constrained` are given out as they arrive, others when the call is whole. After a stop string
    `stopped` is set and everything later is ignored. `warnings` counts what looked like a call and became content.
    """

    def __init__(
        self,
        *,
        stops: Iterable[str] = (),
        reasoning: Reasoning = NO_REASONING,
        tools: ToolFormat = NO_TOOLS,
        declared: Mapping[str, Schema] | None = None,
        new_id: Callable[[], str],
        prompt: str = "",
        inside: bool = False,
        constrained: bool = False,
    ) -> None:
        """`inside` says that the prompt ends inside the reasoning, where its end alone does not show it."""
        self.stopped: str | None = None
        self.warnings: Counter[str] = Counter()
        self._stops = frozenset(stops)
        self._reasoning = reasoning
        self._format = tools if reasoning.frames is None else reasoning.frames
        self._declared = {} if declared is None or tools is NO_TOOLS else declared
        self._constrained = constrained
        self._openers = {opener.text: opener for opener in self._format.openers}
        self._later = {_LATER[opener.where] + opener.text: opener for opener in self._format.openers}
        self._scanners = self._scanners_by_mode()
        self._surroundings: Surroundings | Fences = Fences() if constrained else Surroundings()
        self._marked = bool(self._openers or reasoning.open or reasoning.wraps)
        self._mode = self._before = _Mode.START if self._marked else _Mode.ANSWER
        self._wrapped: str | None = None
        self._skipping = False
        self._reasoned = False
        self._output = Output(new_id)
        self._reader = Reader("", {})
        self._steps: Steps[Landing | None] = self._format.read(self._reader)
        self._begin(prompt, inside)

    def _scanners_by_mode(self) -> dict[_Mode, Scanner]:
        reasoning = self._reasoning
        begins, ends = [begin for begin, _ in reasoning.wraps], [end for _, end in reasoning.wraps]
        again = reasoning.open if reasoning.again else ()
        blank = (*self._stops, *self._openers, *begins)
        return {
            _Mode.START: Scanner((*blank, *reasoning.open)),
            _Mode.FRESH: Scanner((*blank, *ends, *again)),
            _Mode.ANSWER: Scanner((*self._stops, *self._later, *ends, *again)),
            _Mode.REASONING: Scanner(
                (*reasoning.close, *reasoning.open, *(self._openers if self._format.frames else ()))
            ),
        }

    def _begin(self, prompt: str, inside: bool) -> None:
        start = self._format.start
        if inside or self._reasoning.opened(prompt):
            self._enter(_Mode.REASONING)
        elif start and prompt.endswith(start):
            self._open(Reader(start, self._declared, prompted=True))
        elif self._reasoning.closed(prompt):
            self._enter(_Mode.FRESH)

    @property
    def reasoning(self) -> bool:
        """Whether the text now is reasoning."""
        return self._mode is _Mode.REASONING

    @property
    def calls(self) -> int:
        """How many calls were given out, in part at least."""
        return self._output.calls

    @property
    def resolved(self) -> int:
        """Characters whose channel is decided."""
        return self._output.resolved

    def feed(self, text: str, *, stops: bool = True) -> list[Delta]:
        """What the text so far decides; with `stops` false a stop string that ends here is ordinary text."""
        return [piece.delta for piece in self.pieces(text, stops=stops)]

    def close(self, *, cut: bool = False) -> list[Delta]:
        """The text is over: decide all that was held. A call that has begun and is not whole is given out as far as
        it came where the text was `cut` off, else it is content.
        """
        return [piece.delta for piece in self.closing_pieces(cut=cut)]

    def pieces(self, text: str, *, stops: bool = True) -> list[Piece]:
        """As `feed`, with the place of each delta in the text."""
        if len(text) <= _SLICE:
            self._feed(text, stops)
            return self._output.take()
        for at in range(0, len(text), _SLICE):
            self._feed(text[at : at + _SLICE], stops)
        return self._output.take()

    def _feed(self, text: str, stops: bool) -> None:
        while self.stopped is None and (text := self._skip(text) if self._skipping else text):
            if self._mode is _Mode.CALL:
                self._reader.window += text
                text = self._read_on()
                continue
            scanner = self._scanners[self._mode]
            if self._mode is _Mode.ANSWER and scanner.passes(text):
                self._literal(text)  # most text by far
                return
            literal, match, rest = scanner.scan(text)
            text = self._found(scanner, literal, match, rest, stops)

    def closing_pieces(self, *, stops: bool = True, cut: bool = False) -> list[Piece]:
        """As `close`, with the place of each delta in the text."""
        while self.stopped is None:
            if self._mode is _Mode.CALL:
                self._reader.closed = True
                rest = self._read_on(cut=cut)
            else:
                scanner = self._scanners[self._mode]
                literal, match, rest = scanner.close()
                if not literal and match is None:
                    break
                rest = self._found(scanner, literal, match, rest, stops)
            self._feed(rest, stops)
        if self._mode is not _Mode.REASONING:
            self._output.release()
        return self._output.take()

    def _found(self, scanner: Scanner, literal: str, match: str | None, rest: str, stops: bool) -> str:
        """Act on what a scan found; the text to read on with."""
        if self._mode in _BLANK and literal and not literal.isspace():
            self._mode = _Mode.ANSWER  # other tags count now: read it again
            return literal + (match if match is not None else scanner.take()) + rest
        self._literal(literal)
        if match is not None:
            self._match(match, stops)
        return rest

    def _skip(self, text: str) -> str:
        """Leave out the white space between what is no answer and what follows it."""
        kept = text.lstrip()
        self._output.markup(len(text) - len(kept))
        self._skipping = not kept
        return kept

    def _literal(self, text: str) -> None:
        if not text:
            return
        if self._mode is _Mode.REASONING:
            self._reasoned = self._output.reasoning(text) or self._reasoned
            return
        self._surroundings.feed(text)
        if self._mode is not _Mode.ANSWER and not text.isspace():
            self._mode = _Mode.ANSWER
        self._output.text(text, hold_space=self._marked)

    # --- tags

    def _match(self, tag: str, stops: bool) -> None:
        if self._mode is _Mode.REASONING:
            self._match_in_reasoning(tag)
        elif tag in self._stops:
            self._stop(tag, stops)
        elif tag == self._wrapped and not self._surroundings.quoted:
            self._drop(tag, _Mode.FRESH)
            self._wrapped = None
        elif tag in self._reasoning.open and not self._surroundings.quoted:
            self._drop(tag, _Mode.REASONING)
        elif self._mode is not _Mode.ANSWER and (end := dict(self._reasoning.wraps).get(tag)) is not None:
            self._drop(tag, _Mode.FRESH)
            self._wrapped = end
        else:
            self._match_opener(tag)

    def _match_in_reasoning(self, tag: str) -> None:
        if tag in self._reasoning.close:
            self._drop(tag, _Mode.FRESH)
        elif tag in self._reasoning.open and not self._reasoned:
            self._drop(tag, _Mode.REASONING)  # the model repeats the tag its prompt ended with
        elif tag in self._openers:
            self._open(Reader(tag, self._declared))
        else:
            self._literal(tag)

    def _match_opener(self, tag: str) -> None:
        opener = self._openers.get(tag) or self._later.get(tag)
        if opener is None:
            self._literal(tag)
            return
        self._literal(tag.removesuffix(opener.text))
        if self._surroundings.quoted and not self._format.frames:
            self._warn("call inside code", opener)
            self._literal(opener.text)
        else:
            self._open(Reader(opener.text, self._declared))

    def _stop(self, tag: str, stops: bool) -> None:
        if not stops:
            self._literal(tag)
            return
        self._output.release()
        self._output.markup(len(tag))
        self.stopped = tag

    def _drop(self, tag: str, mode: _Mode) -> None:
        self._output.markup(len(tag))
        self._enter(mode)

    def _enter(self, mode: _Mode) -> None:
        self._mode, self._skipping, self._reasoned = mode, True, False
        self._output.drop_space()
        if self._constrained:  # a grammar's free text begins anew
            self._surroundings = Fences()

    # --- calls

    def _open(self, reader: Reader) -> None:
        self._reader, self._steps = reader, self._format.read(reader)
        self._before, self._mode = self._mode, _Mode.CALL

    def _read_on(self, *, cut: bool = False) -> str:
        """Read on behind an opener; the text to read on with."""
        reader = self._reader
        try:
            next(self._steps)
        except StopIteration as done:
            reader.drop()
            self._send_whole()
            self._enter(_Mode.FRESH if done.value is None else _Mode[done.value.name])
        except NotACall as refusal:
            self._send_whole()
            self._refuse(str(refusal))
        except Cut:
            self._send_whole()
            self._cut_off(cut)
        else:
            self._send_whole()
            return ""
        return reader.take()

    def _send_whole(self) -> None:
        """What was read and decided: markup, and calls."""
        reader = self._reader
        self._output.markup(reader.markup)
        reader.markup = 0
        for call in reader.whole:
            self._send(call)
        reader.whole.clear()
        if self._constrained and reader.current is not None:
            self._send(reader.current)

    def _send(self, call: OpenCall) -> None:
        self._reader.called = True
        self._output.call(call)

    def _refuse(self, why: str) -> None:
        """It was no call: what was read of it is text of the mode it stood in."""
        text = "".join(self._reader.held)
        self._reader.held.clear()
        self._mode = self._before
        if text or self._reader.framed:
            self._warn(why, self._openers.get(self._reader.opener))
        if text:
            if self._mode is not _Mode.REASONING:
                self._mode = _Mode.ANSWER
            self._literal(text)

    def _cut_off(self, cut: bool) -> None:
        reader = self._reader
        reader.consume(len(reader.window))
        if cut and reader.current is not None:
            self._send(reader.current)
        rest = "".join(reader.held).strip(" \r\n\t,")
        if reader.called and (cut or not rest):
            self.warnings["call cut off"] += 1
            reader.drop()
            self._send_whole()
            self._enter(_Mode.FRESH)
        else:
            self._refuse("call cut off")

    def _warn(self, what: str, opener: Opener | None) -> None:
        """An opener that is ordinary text elsewhere is no reason to warn, but a name where calls have theirs is."""
        if opener is not None and opener.where is not Where.ANYWHERE and not what.startswith(UNDECLARED):
            return
        if what in self.warnings or len(self.warnings) < _WARNINGS:
            self.warnings[what] += 1
