"""The DRY penalty: a token that would go on with a passage as it stands earlier costs more the longer that is.

Passages are matched on the device, since a step is shaped before the host has seen the tokens of the one before. With
one more token every match either grows by that or ends, so a step costs one pass over what a row has said.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from appliance.engine.mlx.rows import SampleRow

_MOST = 80.0
"""Of the logarithm of a penalty: exp of more is no float32."""


@dataclass(frozen=True, slots=True)
class _Past:
    """history: (N,) tokens. matched: (N,), how many tokens up to each are the same as up to the newest; 0 for that
    itself. run: (), tokens since the last breaker, which no passage holds.
    """

    history: mx.array
    matched: mx.array
    run: mx.array

    def said(self, token: mx.array, breakers: mx.array, window: int | None) -> "_Past":
        """With one more token, (1,)."""
        same = self.history == token
        nothing = mx.zeros((1,), dtype=mx.int32)
        before = mx.concatenate([nothing, self.matched])[:-1]
        matched = mx.concatenate([mx.where(same, before + 1, 0), nothing])
        run = mx.where(mx.any(breakers == token), 0, self.run + 1)
        history = mx.concatenate([self.history, token])
        kept = slice(None) if window is None else slice(-window, None)
        return _Past(history[kept], matched[kept], run)


class Passages:
    """Of the rows that have a penalty for repeated passages."""

    def __init__(self, places: list[int], rows: list[SampleRow], pasts: list[_Past], vocabulary: int) -> None:
        self.rows, self.pasts = rows, pasts
        self._places = places
        self._vocabulary = vocabulary
        self._breakers = [mx.array(sorted(row.rules.dry.breakers), dtype=mx.int32) for row in rows if row.rules.dry]

    @classmethod
    def of(cls, rows: Sequence[SampleRow], vocabulary: int, before: "Sequence[Passages]") -> "Passages | None":
        """For these rows; what `before` knows of them is taken over, since it is newer than what the host knows."""
        places = [place for place, row in enumerate(rows) if row.rules.dry is not None]
        if not places:
            return None
        mine = [rows[place] for place in places]
        kept = {row: past for one in before for row, past in zip(one.rows, one.pasts, strict=True)}
        return cls(places, mine, [kept.get(row) or _past(row) for row in mine], vocabulary)

    def count(self, tokens: mx.array) -> None:
        """tokens: (B,), one more said by every row."""
        for at, (place, row) in enumerate(zip(self._places, self.rows, strict=True)):
            assert row.rules.dry is not None
            token = tokens[place : place + 1].astype(mx.int32)
            self.pasts[at] = self.pasts[at].said(token, self._breakers[at], row.rules.dry.window)

    def apply(self, logits: mx.array) -> mx.array:
        """logits: (B, V)."""
        logits = copy(logits)  # assignment would reach the model's own logits too
        for place, row, past in zip(self._places, self.rows, self.pasts, strict=True):
            logits[place] = logits[place] - self._costs(row, past)
        return logits

    def _costs(self, row: SampleRow, past: _Past) -> mx.array:
        """(V,): of a token that stands behind several passages, the longest counts."""
        dry, none = row.rules.dry, mx.zeros((self._vocabulary,))
        assert dry is not None
        if (count := past.history.shape[0]) < 2:
            return none
        there = mx.arange(1, count)  # what has left the window is no part of a passage any more
        length = mx.minimum(mx.minimum(past.matched[:-1], there), past.run)
        powers = mx.minimum((length - dry.length) * float(np.log(dry.base)), _MOST)
        costs = mx.where(length >= dry.length, dry.multiplier * mx.exp(powers), 0.0)
        return none.at[past.history[1:]].maximum(costs)


def _past(row: SampleRow) -> _Past:
    """Of all it was opened with."""
    dry = row.rules.dry
    assert dry is not None
    known = list(row.known) if dry.window is None else list(row.known)[-dry.window :]
    run = next((back for back, token in enumerate(reversed(known)) if token in dry.breakers), len(known))
    matched = [0, *matches(known[::-1])[1:]][::-1]
    return _Past(mx.array(known, dtype=mx.int32), mx.array(matched, dtype=mx.int32), mx.array(run))


def matches(tokens: Sequence[int]) -> list[int]:
    """For each place, how many tokens from there on are the same as from the beginning on.

    The Z function, in linear time: https://cp-algorithms.com/string/z-function.html
    """
    found, left, right = [len(tokens)] * min(len(tokens), 1), 0, 0
    for place in range(1, len(tokens)):
        length = min(right - place, found[place - left]) if place < right else 0
        while place + length < len(tokens) and tokens[length] == tokens[place + length]:
            length += 1
        if place + length > right:
            left, right = place, place + length
        found.append(length)
    return found
