"""Tokens that rows may not say: words they shall not use, all but those they may, and likely ones left out at random.

What was said last is kept on the device: a step is shaped before the host has seen the tokens of the one before.
"""

from collections.abc import Sequence
from copy import copy

import mlx.core as mx
import numpy as np

from appliance.engine.mlx.masking import LOWEST
from appliance.engine.mlx.randomness import uniform
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.rules import LONGEST_WORD

_PAST = LONGEST_WORD - 1
_ANY = -1
"""Stands for every token, in the past of a word that is shorter than the longest."""
_NOTHING = -2
_OTHER_DRAW = 0x5851F42D4C957F2D
"""Parts the chance of being left out from that of being drawn, which have one seed."""


class TokenLimits:
    """Of the P rows that have any. past: (P, _PAST) the tokens said last, the newest at the right."""

    def __init__(self, places: list[int], rows: list[SampleRow], past: mx.array, vocabulary: int) -> None:
        self.rows = rows
        self.past = past
        self._places = places
        self._index = mx.array(places)
        self._words = _words(rows)
        self._excluded = _excluded(rows, vocabulary)
        self._xtc = [(place, row) for place, row in zip(places, rows, strict=True) if row.rules.xtc is not None]

    @classmethod
    def of(cls, rows: Sequence[SampleRow], vocabulary: int, before: "Sequence[TokenLimits]") -> "TokenLimits | None":
        """For these rows; what `before` knows of them is taken over, since it is newer than what the host knows."""
        places = [place for place, row in enumerate(rows) if _limits(row)]
        if not places:
            return None
        mine = [rows[place] for place in places]
        kept = {row: one.past[place] for one in before for place, row in enumerate(one.rows)}
        past = [kept[row] if row in kept else _past(row) for row in mine]
        return cls(places, mine, mx.stack(past), vocabulary)

    def count(self, tokens: mx.array) -> None:
        """tokens: (B,), one more said by every row."""
        said = tokens[self._index][:, None].astype(mx.int32)
        self.past = mx.concatenate([self.past[:, 1:], said], axis=-1)

    def apply(self, logits: mx.array) -> mx.array:
        """logits: (B, V)."""
        if self._excluded is not None:
            places, excluded = self._excluded
            index = mx.array([self._places[place] for place in places])
            logits = copy(logits)  # assignment would reach the model's own logits too
            logits[index] = mx.where(excluded, LOWEST, logits[index])
        if self._words is not None:
            owner, before, last = self._words
            follows = mx.all((before == self.past[owner]) | (before == _ANY), axis=-1)
            bound = mx.where(follows, LOWEST, mx.array(np.inf, dtype=mx.float32))
            logits = logits.at[self._index[owner], last].minimum(bound)
        return logits

    def leave_out(self, logits: mx.array) -> mx.array:
        """logits: (B, V), those that may not be said at their lowest: chance leaves out some of the others."""
        for place, row in self._xtc:
            logits = _without_the_likely(logits, place, row)
        return logits


def _limits(row: SampleRow) -> bool:
    return bool(row.rules.banned) or row.rules.allowed is not None or row.rules.xtc is not None


def _without_the_likely(logits: mx.array, place: int, row: SampleRow) -> mx.array:
    """mlx-lm's `apply_xtc`, by the row's own seed; tokens that end an answer are never left out."""
    assert row.rules.xtc is not None
    probability, threshold = row.rules.xtc
    if row.sampling.temperature == 0 or uniform(row.sampling.seed ^ _OTHER_DRAW, row.answered) >= probability:
        return logits
    chances = mx.softmax(logits[place], axis=-1)
    least = mx.where(chances > threshold, chances, mx.array(np.inf, dtype=mx.float32)).min()
    left_out = mx.where(chances > least, LOWEST, logits[place])
    if row.stop_ids:
        ends = mx.array(sorted(row.stop_ids))
        left_out[ends] = logits[place][ends]
    logits = copy(logits)
    logits[place] = left_out
    return logits


def _words(rows: Sequence[SampleRow]) -> tuple[mx.array, mx.array, mx.array] | None:
    """Of all rows: whose each word is (N,), what stands before its last token (N, _PAST), that token (N,)."""
    words = [(owner, word) for owner, row in enumerate(rows) for word in row.rules.banned]
    if not words:
        return None
    before = [[_ANY] * (_PAST + 1 - len(word)) + list(word[:-1]) for _, word in words]
    return mx.array([o for o, _ in words]), mx.array(before, dtype=mx.int32), mx.array([w[-1] for _, w in words])


def _excluded(rows: Sequence[SampleRow], vocabulary: int) -> tuple[list[int], mx.array] | None:
    """Of the rows that name what is allowed: their places, and everything else (N, V)."""
    named = [(place, row.rules.allowed) for place, row in enumerate(rows) if row.rules.allowed is not None]
    if not named:
        return None
    excluded = np.ones((len(named), vocabulary), dtype=bool)
    for at, (_, allowed) in enumerate(named):
        excluded[at, list(allowed or ())] = False
    return [place for place, _ in named], mx.array(excluded)


def _past(row: SampleRow) -> mx.array:
    """Of the answer alone: what a client wrote itself is no word the model used."""
    said = list(row.known[row.prompt_length :])[-_PAST:]
    return mx.array([_NOTHING] * (_PAST - len(said)) + said, dtype=mx.int32)
