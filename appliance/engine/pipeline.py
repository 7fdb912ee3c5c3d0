"""What a client gets of one sequence's tokens: text, reasoning, tool calls, and when and why it ends.

The step loop calls `feed` for every token of every row: without stop strings, dialects and log-probabilities a
token costs one table look-up, one UTF-8 step and one delta.
"""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, replace

from appliance.engine.backend import Sampled, TokenBytes
from appliance.engine.logprobs import LogprobPlacer, named
from appliance.text.channels import Channels
from appliance.text.output import Piece
from appliance.vocab.event import Event, Finished, FinishReason, TextDelta, Usage

_decoder = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class Limits:
    """When a sequence ends. `ends` are token ids that end it; `room` is how many tokens it may have in all;
    before `min_tokens` neither end tokens nor stop strings count.
    """

    ends: frozenset[int]
    room: int
    min_tokens: int = 0


class Pipeline:
    """Fold over one sequence's tokens. `channels` None means that all text is the answer.

    `prompt_tokens` never counts emitted tokens; set `cached_tokens`, `drafted` and `accepted` before the end for the
    usage to tell them.
    """

    def __init__(
        self,
        tokenizer: TokenBytes,
        limits: Limits,
        *,
        prompt_tokens: int,
        channels: Channels | None = None,
        logprobs: bool = False,
    ) -> None:
        self.finished = False
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        self.drafted = self.accepted = 0
        self._tokenizer, self._raw = tokenizer, tokenizer.raw
        self._scored = False
        self._limits = limits
        self._channels = channels
        self._placer = LogprobPlacer(tokenizer) if logprobs else None
        self._utf8 = _decoder("replace")
        self._chars = 0
        self._generated = 0
        self._reasoning = 0

    def text_of(self, token: int) -> str:
        """A token for people to read; special ones have no text."""
        return self._raw(token).decode("utf-8", "replace")

    def begin(self, emitted: Iterable[int] = ()) -> list[Event]:
        """Replay what an engine before this one emitted, in silence; returns Finished if there is no more to do."""
        events: list[Event] = []
        for token in emitted:
            if not self.finished:
                events = self.feed(Sampled(token))
        if not self.finished and self._generated >= self._limits.room:
            events = self._end("length")
        return [event for event in events if isinstance(event, Finished)]

    def feed(self, sampled: Sampled) -> list[Event]:
        """The events of the next token; after Finished nothing may be fed."""
        if sampled.prompt and not self._scored:
            self._scored = True
            prompt = tuple(named(self._tokenizer, token) for token in sampled.prompt)
            return [TextDelta("", (), prompt), *self.feed(replace(sampled, prompt=()))]
        self._generated += 1
        eligible = self._generated > self._limits.min_tokens
        if eligible and sampled.token in self._limits.ends:
            return self._end("stop")
        text = self._utf8.decode(self._raw(sampled.token))
        events: list[Event]
        if self._channels is None and self._placer is None:
            events = [TextDelta(text)] if text else []
        else:
            events = self._sorted(text, sampled, eligible)
            if self._channels is not None and self._channels.stopped is not None:
                return events + self._finished("stop")
        if self._generated >= self._limits.room:
            return events + self._end("length")
        return events

    def cancel(self) -> list[Event]:
        """Whoever asked has left."""
        return self._finished("cancelled")

    def _sorted(self, text: str, sampled: Sampled, stops: bool) -> list[Event]:
        if self._channels is not None:
            self._reasoning += self._channels.reasoning
        start, self._chars = self._chars, self._chars + len(text)
        if self._placer is not None:
            # Bytes that complete no character yet are part of the one that comes next.
            self._placer.add(start, self._chars + bool(self._utf8.getstate()[0]), sampled)
        if self._channels is None:
            return self._placed([Piece(start, self._chars, TextDelta(text))] if text else [], self._chars)
        return self._placed(self._channels.pieces(text, stops=stops), self._channels.resolved)

    def _placed(self, pieces: list[Piece], resolved: int) -> list[Event]:
        if self._placer is None:
            return [piece.delta for piece in pieces]
        return list(self._placer.place(pieces, resolved))

    def _end(self, reason: FinishReason) -> list[Event]:
        """Give out what was held for a continuation that does not come; a character that was cut is left out."""
        stops = self._generated > self._limits.min_tokens
        if self._channels is None:
            return self._placed([], self._chars) + self._finished(reason)
        pieces = self._channels.closing_pieces(stops=stops, cut=reason == "length")
        events = self._placed(pieces, self._chars)
        return events + self._finished("stop" if self._channels.stopped is not None else reason)

    def _finished(self, reason: FinishReason) -> list[Event]:
        self.finished = True
        stop = self._channels.stopped if self._channels is not None else None
        if reason == "stop" and self._channels is not None and self._channels.calls:
            reason = "tool_calls"
        usage = Usage(
            self.prompt_tokens, self._generated, self.cached_tokens, self._reasoning, self.drafted, self.accepted
        )
        warnings = tuple(self._channels.warnings.items()) if self._channels is not None else ()
        return [Finished(reason, usage, stop, warnings)]
