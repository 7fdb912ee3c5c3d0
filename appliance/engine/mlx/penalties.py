"""Presence, frequency and repetition penalties, kept on the device and grown by each token said.

OpenAI's presence and frequency penalties look at the answer; CTRL's repetition penalty (Keskar et al. 2019) at the
prompt too. What is subtracted is kept ready as one array, so that a step costs one pass over the vocabulary.
"""

from collections.abc import Sequence
from copy import copy

import mlx.core as mx
import numpy as np

from appliance.engine.mlx.rows import SampleRow
from appliance.vocab.request import Sampling

LEAST_REPETITION = 1e-6
"""Dividing by less gives infinities."""


class Penalties:
    """Of the P rows that have any. subtracted: (P, V); answered: (P, V) bool; seen: (P, V) bool or None."""

    def __init__(
        self,
        places: list[int],
        rows: list[SampleRow],
        subtracted: mx.array,
        answered: mx.array,
        seen: mx.array | None,
    ) -> None:
        self.rows = rows
        self.subtracted, self.answered, self.seen = subtracted, answered, seen
        self._index = mx.array(places)
        self._repetition = mx.maximum(_column(rows, "repetition_penalty"), LEAST_REPETITION)
        self._presence = _column(rows, "presence_penalty")
        self._frequency = _column(rows, "frequency_penalty")

    @classmethod
    def of(cls, rows: Sequence[SampleRow], vocabulary: int, before: "Sequence[Penalties]") -> "Penalties | None":
        """For these rows; what `before` holds of them is taken over, since it counts tokens the host has not seen."""
        places = [place for place, row in enumerate(rows) if penalised(row.sampling)]
        if not places:
            return None
        kept = {row: (one, place) for one in before for place, row in enumerate(one.rows)}
        mine = [rows[place] for place in places]
        parts = [kept[row][0].part(kept[row][1]) if row in kept else _part(row, vocabulary) for row in mine]
        repeating = any(row.sampling.repetition_penalty != 1 for row in mine)
        stacked = [mx.stack(column) for column in zip(*parts, strict=True)]
        return cls(places, mine, stacked[0], stacked[1], stacked[2] if repeating else None)

    def part(self, place: int) -> tuple[mx.array, mx.array, mx.array]:
        seen = self.answered if self.seen is None else self.seen
        return self.subtracted[place], self.answered[place], seen[place]

    def apply(self, logits: mx.array) -> mx.array:
        """logits: (B, V)."""
        if len(self.rows) == logits.shape[0]:
            return self._changed(logits)
        changed = copy(logits)  # assignment would reach the model's own logits too
        changed[self._index] = self._changed(logits[self._index])
        return changed

    def count(self, tokens: mx.array) -> None:
        """tokens: (B,), one more said by every row."""
        said = tokens[self._index][:, None]
        first = ~mx.take_along_axis(self.answered, said, axis=-1)
        more = mx.take_along_axis(self.subtracted, said, axis=-1) + self._frequency + self._presence * first
        self.subtracted = mx.put_along_axis(self.subtracted, said, more, axis=-1)
        self.answered = mx.put_along_axis(self.answered, said, mx.array(True), axis=-1)
        if self.seen is not None:
            self.seen = mx.put_along_axis(self.seen, said, mx.array(True), axis=-1)

    def _changed(self, logits: mx.array) -> mx.array:
        if self.seen is not None:
            repeated = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
            logits = mx.where(self.seen, repeated, logits)
        return logits - self.subtracted


def penalised(sampling: Sampling) -> bool:
    return (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) != (1.0, 0.0, 0.0)


def _column(rows: Sequence[SampleRow], field: str) -> mx.array:
    return mx.array([[getattr(row.sampling, field)] for row in rows], dtype=mx.float32)


def _part(row: SampleRow, vocabulary: int) -> tuple[mx.array, mx.array, mx.array]:
    counts = _histogram(row.known[row.prompt_length :], vocabulary)
    answered = counts > 0
    subtracted = row.sampling.frequency_penalty * counts + row.sampling.presence_penalty * answered
    seen = answered | (_histogram(row.known[: row.prompt_length], vocabulary) > 0)
    return mx.array(subtracted.astype(np.float32)), mx.array(answered), mx.array(seen)


def _histogram(tokens: Sequence[int], vocabulary: int) -> np.ndarray:
    return np.bincount(np.asarray(tokens, dtype=np.int64), minlength=vocabulary)[:vocabulary]
