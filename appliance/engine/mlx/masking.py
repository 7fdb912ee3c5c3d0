"""Keeps constrained rows inside their grammar: masks are made beside the forward pass, then laid over its logits."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy

import mlx.core as mx
import numpy as np

from appliance.engine.constraint import Masks
from appliance.engine.mlx.rows import SampleRow

LOWEST = float(np.finfo(np.float32).min)
_LAST_RESORT = -1e30
"""Of what a grammar allows and other rules do not: said only where nothing else is left, since a grammar that is left
ends the answer. Finite at every temperature.
"""

Allowed = Future[np.ndarray]


class Masking:
    """The rows that have a matcher; `places` are theirs in the batch."""

    def __init__(self, rows: Sequence[SampleRow], vocabulary: int, workshop: "MaskWorkshop") -> None:
        self._places = [place for place, row in enumerate(rows) if row.matcher is not None]
        self._matchers = [rows[place].matcher for place in self._places]
        self._vocabulary = vocabulary
        self._workshop = workshop

    def __bool__(self) -> bool:
        return bool(self._places)

    def begin(self) -> Allowed:
        """Start computing what may come next: (G, V) bool, later. The matchers must not move meanwhile."""
        return self._workshop.submit(self._compute)

    def apply(self, logits: mx.array, allowed: np.ndarray) -> mx.array:
        """logits: (B, V)."""
        index = mx.array(self._places)
        logits = copy(logits)  # assignment would reach the model's own logits too
        logits[index] = mx.where(mx.array(allowed), mx.maximum(logits[index], _LAST_RESORT), LOWEST)
        return logits

    def accept(self, tokens: Sequence[int]) -> None:
        """Move the matchers on by the tokens (B,) their rows got."""
        for place, matcher in zip(self._places, self._matchers, strict=True):
            if matcher is not None:
                matcher.accept(tokens[place])

    def errors(self) -> dict[int, str]:
        """Places whose grammar cannot go on, and why."""
        pairs = zip(self._places, self._matchers, strict=True)
        return {
            place: f"it cannot be kept to its grammar: {matcher.error}"
            for place, matcher in pairs
            if matcher is not None and matcher.error
        }

    def _compute(self) -> np.ndarray:
        words = -(-self._vocabulary // 32)
        bits = np.full((len(self._places), words), -1, dtype=np.int32)
        for place, matcher in enumerate(self._matchers):
            if matcher is None or matcher.error:
                continue
            if (only := matcher.only) is not None:
                bits[place] = 0
                bits[place, only // 32] = np.uint32(1 << only % 32).astype(np.int32)
            else:
                self._workshop.masks.fill([matcher], bits[place].ctypes.data, words * 4)
        unpacked = np.unpackbits(bits.view(np.uint8), axis=-1, bitorder="little")
        return unpacked[:, : self._vocabulary].view(bool)


class MaskWorkshop:
    """One thread, so that masks are made while the loop's thread hands work to the device."""

    def __init__(self) -> None:
        self.masks = Masks(threads=1)
        self._thread = ThreadPoolExecutor(1, "masks")
        self.submit = self._thread.submit
