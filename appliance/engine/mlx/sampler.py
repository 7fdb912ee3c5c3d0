"""Chooses the next token of every row in one graph; rebuilt only when rows join or leave."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from appliance.engine.backend import Candidate, Sampled
from appliance.engine.mlx.drawing import Drawn, drawn_rows
from appliance.engine.mlx.likeliest import likeliest
from appliance.engine.mlx.masking import LOWEST, Allowed, Masking, MaskWorkshop
from appliance.engine.mlx.passages import Passages
from appliance.engine.mlx.penalties import Penalties
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.rules import TokenLimits


@dataclass(frozen=True, slots=True)
class _Report:
    """Log-probabilities of the rows that asked: chosen (A,), top_* (A, N) best first."""

    rows: tuple[int, ...]
    wanted: tuple[int, ...]
    chosen: mx.array
    top_tokens: mx.array | None
    top_logprobs: mx.array | None

    def arrays(self) -> list[mx.array]:
        return [a for a in (self.chosen, self.top_tokens, self.top_logprobs) if a is not None]

    def read(self, sampled: list[Sampled]) -> None:
        chosen = self.chosen.tolist()
        for place, row in enumerate(self.rows):
            sampled[row] = Sampled(sampled[row].token, chosen[place], self._top(place))

    def _top(self, place: int) -> tuple[Candidate, ...]:
        if self.top_tokens is None or self.top_logprobs is None:
            return ()
        pairs = zip(self.top_tokens[place].tolist(), self.top_logprobs[place].tolist(), strict=True)
        return tuple(Candidate(token, logprob) for token, logprob in pairs)[: self.wanted[place]]


class Choice:
    """A step's tokens, (B,). They may still have to wait for masks, and draws that were not sure to be right are
    repeated: `settle` makes them final.
    """

    def __init__(self, sampler: "Sampler", logits: mx.array, allowed: Allowed | None) -> None:
        self._sampler = sampler
        self._logits = logits
        self._allowed = allowed
        self._settled = False
        self._unsound: list[int] = []
        self._unsure: list[tuple[Drawn, mx.array]] = []
        self._report: _Report | None = None
        if allowed is None:
            self._choose(sampler.shape(logits))

    def arrays(self) -> list[mx.array]:
        """What can be computed for it by now."""
        if self._allowed is not None:
            return [self._logits]
        sure = [covered for _, covered in self._unsure]
        return [self.tokens, self._chosen, *sure, *(self._report.arrays() if self._report else [])]

    def settle(self) -> mx.array:
        """The final tokens; waits for masks, and for the device where a draw may have to be repeated."""
        if self._allowed is not None:
            allowed, self._allowed = self._allowed.result(), None
            self._choose(self._sampler.masking.apply(self._sampler.shape(self._logits), allowed))
        if not self._settled:
            self._settled = True
            self._repair()
            self._sampler.said(self.tokens)
        return self.tokens

    def read(self) -> list[Sampled]:
        """Wait for the device and give one Sampled per row."""
        sampled = [Sampled(token) for token in self.settle().tolist()]
        self._unsound = [place for place, logit in enumerate(self._chosen.tolist()) if not math.isfinite(logit)]
        if self._report is not None:
            self._report.read(sampled)
        return sampled

    def errors(self) -> dict[int, str]:
        """After `read`: the places that cannot go on, and why."""
        broken = dict.fromkeys(self._unsound, "the model's output is not a number")
        return self._sampler.masking.errors() | broken

    def _choose(self, shaped: mx.array) -> None:
        self._shaped = self._sampler.leave_out(shaped)
        self.tokens, self._unsure = self._sampler.choose(self._shaped)
        self._report = self._sampler.report(self._logits, self.tokens)
        # A row that went wrong is not a number throughout, so the chosen token's own logit tells.
        self._chosen = mx.take_along_axis(self._logits, self.tokens[:, None], axis=-1)[:, 0]

    def _repair(self) -> None:
        for drawn, covered in self._unsure:
            missed = [place for place, sure in zip(drawn.places, covered.tolist(), strict=True) if not sure]
            if missed:
                self.tokens = self._sampler.redraw(drawn, missed, self._shaped, self.tokens)
                self._report = self._sampler.report(self._logits, self.tokens)
        self._unsure = []
        del self._shaped


class Sampler:
    """Holds the rows' parameters as arrays, the penalties of what they have said and the masks of their grammars."""

    def __init__(
        self,
        rows: Sequence[SampleRow],
        vocabulary: int,
        workshop: MaskWorkshop,
        before: "Sequence[Sampler]" = (),
    ) -> None:
        """`before` are samplers that have counted what some of the rows said; of two the later one."""
        self.rows = list(rows)
        self.masking = Masking(rows, vocabulary, workshop)
        self._vocabulary = vocabulary
        self._drawn = drawn_rows(rows)
        self._bias = _bias(rows)
        self._held = [place for place, row in enumerate(rows) if row.sampling.min_tokens > 0 and row.stop_ids]
        self._asked = tuple(place for place, row in enumerate(rows) if row.sampling.logprobs is not None)
        self._penalties = Penalties.of(rows, vocabulary, [one._penalties for one in before if one._penalties])
        self._limits = TokenLimits.of(rows, vocabulary, [one._limits for one in before if one._limits])
        self._passages = Passages.of(rows, vocabulary, [one._passages for one in before if one._passages])

    def sample(self, logits: mx.array) -> Choice:
        """logits: (B, V), the model's own. The choice must be settled before the next one."""
        return Choice(self, logits.astype(mx.float32), self.masking.begin() if self.masking else None)

    def said(self, tokens: mx.array) -> None:
        """Take the final tokens (B,) of a choice."""
        if self._penalties is not None:
            self._penalties.count(tokens)
        if self._limits is not None:
            self._limits.count(tokens)
        if self._passages is not None:
            self._passages.count(tokens)
        if self.masking:
            self.masking.accept(tokens.tolist())
        for row in self.rows:
            row.answered += 1

    def shape(self, logits: mx.array) -> mx.array:
        """Bias, penalties, minimum length and token rules applied: (B, V)."""
        if self._bias is not None:
            rows, columns, values = self._bias
            logits = logits.at[rows, columns].add(values)
        if self._penalties is not None:
            logits = self._penalties.apply(logits)
        if self._passages is not None:
            logits = self._passages.apply(logits)
        for place in self._held:
            row = self.rows[place]
            if row.answered < row.sampling.min_tokens:
                logits = logits.at[place, mx.array(sorted(row.stop_ids))].minimum(LOWEST)
        return logits if self._limits is None else self._limits.apply(logits)

    def leave_out(self, shaped: mx.array) -> mx.array:
        """Without the likely tokens that rows leave out by chance, after grammars had their say: (B, V)."""
        return shaped if self._limits is None else self._limits.leave_out(shaped)

    def choose(self, shaped: mx.array) -> tuple[mx.array, list[tuple[Drawn, mx.array]]]:
        """Tokens (B,), and which draws still have to be checked."""
        if len(self._drawn) == 1 and len(self._drawn[0].places) == len(self.rows):
            tokens, covered = self._drawn[0].draw(shaped, self.rows)
            return tokens, [] if covered is None else [(self._drawn[0], covered)]
        tokens = mx.argmax(shaped, axis=-1).astype(mx.int32)
        unsure = []
        for drawn in self._drawn:
            some, covered = drawn.draw(shaped[drawn.index], self.rows)
            tokens[drawn.index] = some
            if covered is not None:
                unsure.append((drawn, covered))
        return tokens, unsure

    def redraw(self, drawn: Drawn, places: list[int], shaped: mx.array, tokens: mx.array) -> mx.array:
        """Tokens with these places drawn again, from the whole vocabulary."""
        index = mx.array(places)
        again = drawn.draw_fully(places, shaped[index], self.rows)
        tokens = tokens + 0  # assignment would reach whoever holds the array
        tokens[index] = again
        return tokens

    def report(self, logits: mx.array, tokens: mx.array) -> _Report | None:
        """Log-probabilities of the model's own distribution, before bias, penalties and temperature."""
        if not self._asked:
            return None
        index = mx.array(self._asked)
        asked = logits[index]
        logprobs = asked - mx.logsumexp(asked, axis=-1, keepdims=True)
        chosen = mx.take_along_axis(logprobs, tokens[index][:, None], axis=-1)[:, 0]
        wanted = tuple(self.rows[place].sampling.logprobs or 0 for place in self._asked)
        most = min(max(wanted), self._vocabulary)
        if most == 0:
            return _Report(self._asked, wanted, chosen, None, None)
        return _Report(self._asked, wanted, chosen, *likeliest(logprobs, most))


def _bias(rows: Sequence[SampleRow]) -> tuple[mx.array, mx.array, mx.array] | None:
    entries = [
        (place, token, bias) for place, row in enumerate(rows) for token, bias in row.sampling.logit_bias.items()
    ]
    if not entries:
        return None
    places, columns, values = zip(*entries, strict=True)
    return mx.array(places), mx.array(columns), mx.array(values, dtype=mx.float32)
