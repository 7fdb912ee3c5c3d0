"""Which delta carries the log-probability of which token: the one that carries the end of the token's text.

A token none of whose text is delivered (markup, a matched stop string) has no place in the answer.
"""

from collections import deque
from dataclasses import dataclass

from appliance.engine.backend import Sampled, TokenBytes
from appliance.text.output import Piece
from appliance.vocab.event import Delta, ReasoningDelta, TextDelta, TokenLogprob, ToolCallDelta, TopToken


@dataclass(slots=True, eq=False)
class _Waiting:
    start: int
    end: int
    logprob: TokenLogprob
    delivered: bool = False


class LogprobPlacer:
    """Tokens in with their place in the text, pieces in, deltas with log-probabilities out."""

    def __init__(self, tokenizer: TokenBytes) -> None:
        self._tokenizer = tokenizer
        self._waiting: deque[_Waiting] = deque()

    def add(self, start: int, end: int, sampled: Sampled) -> None:
        """The next token: its bytes are part of the characters [start, end)."""
        if start < end and sampled.logprob is not None:
            self._waiting.append(_Waiting(start, end, named(self._tokenizer, sampled)))

    def place(self, pieces: list[Piece], resolved: int) -> list[Delta]:
        """The pieces' deltas, each with the tokens it ends; all characters before `resolved` are decided."""
        deltas: list[Delta] = []
        for piece in pieces:
            if isinstance(piece.delta, ToolCallDelta):
                deltas.append(piece.delta)
            else:
                deltas.append(type(piece.delta)(piece.delta.text, self._ended(piece)))
        late = self._late(resolved)
        if late:
            last = deltas[-1] if deltas else None
            if isinstance(last, TextDelta | ReasoningDelta):
                deltas[-1] = type(last)(last.text, last.logprobs + late)
            else:
                deltas.append(TextDelta("", late))
        return deltas

    def _ended(self, piece: Piece) -> tuple[TokenLogprob, ...]:
        ended: list[TokenLogprob] = []
        while self._waiting and self._waiting[0].start < piece.end:
            token = self._waiting[0]
            token.delivered = token.delivered or token.end > piece.start
            if token.end > piece.end:
                break
            self._waiting.popleft()
            if token.delivered:
                ended.append(token.logprob)
        return tuple(ended)

    def _late(self, resolved: int) -> tuple[TokenLogprob, ...]:
        """Tokens whose text went out but for an end that turned out to be markup."""
        late: list[TokenLogprob] = []
        while self._waiting and self._waiting[0].end <= resolved:
            token = self._waiting.popleft()
            if token.delivered:
                late.append(token.logprob)
        return tuple(late)


def named(tokenizer: TokenBytes, sampled: Sampled) -> TokenLogprob:
    """A token and its candidates with their texts; 0 where it has no log-probability."""
    top = tuple(TopToken(*_named(tokenizer, c.token, c.logprob), c.token) for c in sampled.top)
    return TokenLogprob(*_named(tokenizer, sampled.token, sampled.logprob or 0.0), top, sampled.token, sampled.rank)


def _named(tokenizer: TokenBytes, token: int, logprob: float) -> tuple[str, float, bytes]:
    raw = tokenizer.raw(token)
    return raw.decode("utf-8", "replace"), logprob, raw
