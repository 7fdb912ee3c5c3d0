"""Chooses the next token of every row in one graph; rebuilt only when rows join or leave."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from appliance.engine.backend import Candidate, Sampled
from appliance.engine.mlx.filters import NARROW, draw_narrow, draw_plain, draw_wide, penalise
from appliance.engine.mlx.randomness import uniform
from appliance.vocab.request import Sampling

LOWEST = float(np.finfo(np.float32).min)


@dataclass(eq=False, slots=True)
class SampleRow:
    """What sampling must know of a sequence. `answered` counts its sampled tokens, also those still on the device."""

    sampling: Sampling
    known: Sequence[int]
    prompt_length: int
    stop_ids: frozenset[int]
    answered: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A step's tokens on the device: tokens (B,), and for rows that asked their log-probabilities."""

    tokens: mx.array
    asked: tuple[int, ...] = ()
    chosen: mx.array | None = None  # (A,)
    top_tokens: mx.array | None = None  # (A, N), best first
    top_logprobs: mx.array | None = None
    wanted: tuple[int, ...] = ()

    def arrays(self) -> list[mx.array]:
        return [a for a in (self.tokens, self.chosen, self.top_tokens, self.top_logprobs) if a is not None]

    def read(self) -> list[Sampled]:
        """Wait for the device and give one Sampled per row."""
        out = [Sampled(token) for token in self.tokens.tolist()]
        if self.chosen is None:
            return out
        chosen = self.chosen.tolist()
        tops = [[]] * len(chosen) if self.top_tokens is None else self._tops()
        for place, row in enumerate(self.asked):
            top = tuple(tops[place][: self.wanted[place]])
            out[row] = Sampled(out[row].token, chosen[place], top)
        return out

    def _tops(self) -> list[list[Candidate]]:
        pairs = zip(self.top_tokens.tolist(), self.top_logprobs.tolist(), strict=True)
        return [[Candidate(t, p) for t, p in zip(tokens, logprobs, strict=True)] for tokens, logprobs in pairs]


Draw = Callable[[mx.array, mx.array], mx.array]  # scaled logits (R, V), uniform (R,) → tokens (R,)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rows that are drawn the same way."""

    rows: list[int]
    index: mx.array
    temperature: mx.array
    draw: Draw


class Sampler:
    """Holds the rows' parameters as arrays and the penalties' token counts."""

    def __init__(self, rows: Sequence[SampleRow], vocabulary: int, before: "Sampler | None" = None) -> None:
        self.rows = list(rows)
        self._vocabulary = vocabulary
        self._all_greedy = all(row.sampling.temperature == 0 for row in rows)
        self._drawn = _drawn(rows)
        self._bias = _bias(rows)
        self._floored = [i for i, row in enumerate(rows) if row.sampling.min_tokens > 0 and row.stop_ids]
        self._asked = tuple(i for i, row in enumerate(rows) if row.sampling.logprobs is not None)
        self._penalties = _Penalties.build(rows, vocabulary, before._penalties if before else None)

    def sample(self, logits: mx.array) -> Choice:
        """logits: (B, V), the model's own. Advances the rows by one token each."""
        logits = logits.astype(mx.float32)
        shaped = self._shape(logits)
        tokens = self._choose(shaped)
        if self._penalties is not None:
            self._penalties.count(tokens)
        choice = self._report(logits, tokens)
        for row in self.rows:
            row.answered += 1
        return choice

    def _shape(self, logits: mx.array) -> mx.array:
        if self._bias is not None:
            rows, columns, values = self._bias
            logits = logits.at[rows, columns].add(values)
        if self._penalties is not None:
            logits = self._penalties.apply(logits)
        for place in self._floored:
            row = self.rows[place]
            if row.answered < row.sampling.min_tokens:
                logits = logits.at[place, mx.array(sorted(row.stop_ids))].minimum(LOWEST)
        return logits

    def _choose(self, shaped: mx.array) -> mx.array:
        if self._all_greedy:
            return mx.argmax(shaped, axis=-1).astype(mx.int32)
        if len(self._drawn) == 1 and len(self._drawn[0].rows) == len(self.rows):
            return self._draw(self._drawn[0], shaped)
        tokens = mx.argmax(shaped, axis=-1).astype(mx.int32)
        for drawn in self._drawn:
            tokens[drawn.index] = self._draw(drawn, shaped[drawn.index])
        return tokens

    def _draw(self, drawn: _Drawn, logits: mx.array) -> mx.array:
        chances = [uniform(self.rows[i].sampling.seed, self.rows[i].answered) for i in drawn.rows]
        return drawn.draw(logits / drawn.temperature, mx.array(chances)).astype(mx.int32)

    def _report(self, logits: mx.array, tokens: mx.array) -> Choice:
        """Log-probabilities of the model's own distribution, before bias, penalties and temperature."""
        if not self._asked:
            return Choice(tokens)
        index = mx.array(self._asked)
        asked = logits[index]
        logprobs = asked - mx.logsumexp(asked, axis=-1, keepdims=True)
        chosen = mx.take_along_axis(logprobs, tokens[index][:, None], axis=-1)[:, 0]
        wanted = tuple(self.rows[i].sampling.logprobs or 0 for i in self._asked)
        most = min(max(wanted), self._vocabulary)
        if most == 0:
            return Choice(tokens, self._asked, chosen, wanted=wanted)
        top = mx.argpartition(-logprobs, kth=most - 1, axis=-1)[:, :most]
        values = mx.take_along_axis(logprobs, top, axis=-1)
        order = mx.argsort(-values, axis=-1)
        best = (mx.take_along_axis(top, order, axis=-1), mx.take_along_axis(values, order, axis=-1))
        return Choice(tokens, self._asked, chosen, *best, wanted=wanted)


def _drawn(rows: Sequence[SampleRow]) -> tuple[_Drawn, ...]:
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row.sampling.temperature > 0:
            groups.setdefault(_class(row.sampling), []).append(place)
    return tuple(_group(kind, places, rows) for kind, places in groups.items())


def _class(sampling: Sampling) -> str:
    if 0 < sampling.top_k <= NARROW:
        return "narrow"
    return "plain" if sampling.top_k == 0 and sampling.top_p >= 1 and sampling.min_p == 0 else "wide"


def _group(kind: str, places: list[int], rows: Sequence[SampleRow]) -> _Drawn:
    of = [rows[i].sampling for i in places]
    top_k = mx.array([s.top_k for s in of])
    top_p = mx.array([s.top_p for s in of])
    min_p = mx.array([s.min_p for s in of])
    widest = max(s.top_k for s in of)
    draws: dict[str, Draw] = {
        "plain": draw_plain,
        "narrow": lambda scaled, u: draw_narrow(scaled, top_k, top_p, min_p, widest, u),
        "wide": lambda scaled, u: draw_wide(scaled, top_k, top_p, min_p, u),
    }
    return _Drawn(places, mx.array(places), mx.array([[s.temperature] for s in of]), draws[kind])


def _bias(rows: Sequence[SampleRow]) -> tuple[mx.array, mx.array, mx.array] | None:
    entries = [(i, token, bias) for i, row in enumerate(rows) for token, bias in row.sampling.logit_bias.items()]
    if not entries:
        return None
    places, columns, values = zip(*entries, strict=True)
    return mx.array(places), mx.array(columns), mx.array(values, dtype=mx.float32)


class _Penalties:
    """Token counts of the rows that have penalties; they stay on the device and follow the sampled tokens there."""

    def __init__(self, places: list[int], rows: Sequence[SampleRow], counts: mx.array, in_prompt: mx.array) -> None:
        self._rows = [rows[i] for i in places]
        self._index = mx.array(places)
        self._counts = counts
        self._in_prompt = in_prompt
        column = lambda field: mx.array([[getattr(row.sampling, field)] for row in self._rows])  # noqa: E731
        self._repetition = column("repetition_penalty")
        self._presence = column("presence_penalty")
        self._frequency = column("frequency_penalty")

    @classmethod
    def build(cls, rows: Sequence[SampleRow], vocabulary: int, before: "_Penalties | None") -> "_Penalties | None":
        places = [i for i, row in enumerate(rows) if _penalised(row.sampling)]
        if not places:
            return None
        kept = {} if before is None else {row: i for i, row in enumerate(before._rows)}
        counts, in_prompt = [], []
        for row in (rows[i] for i in places):
            if before is not None and (at := kept.get(row)) is not None:
                counts.append(before._counts[at])
                in_prompt.append(before._in_prompt[at])
            else:
                counts.append(_histogram(row.known[row.prompt_length :], vocabulary))
                in_prompt.append(_histogram(row.known[: row.prompt_length], vocabulary) > 0)
        return cls(places, rows, mx.stack(counts), mx.stack(in_prompt))

    def apply(self, logits: mx.array) -> mx.array:
        changed = penalise(
            logits[self._index], self._counts, self._in_prompt, self._repetition, self._presence, self._frequency
        )
        if len(self._rows) == logits.shape[0]:
            return changed
        logits = copy(logits)  # assignment would reach the model's own logits too
        logits[self._index] = changed
        return logits

    def count(self, tokens: mx.array) -> None:
        places = mx.arange(len(self._rows))
        self._counts = self._counts.at[places, tokens[self._index]].add(1.0)


def _penalised(sampling: Sampling) -> bool:
    return (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) != (1.0, 0.0, 0.0)


def _histogram(tokens: Sequence[int], vocabulary: int) -> mx.array:
    counted = np.bincount(np.asarray(tokens, dtype=np.int64), minlength=vocabulary)[:vocabulary]
    return mx.array(counted.astype(np.float32))
