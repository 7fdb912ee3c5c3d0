"""How many prompt tokens one step takes, from measured speed: running streams wait for a chunk and a decode step, so
it is sized by time; where none run, newcomers and cancels wait for it, which is less urgent. PURE.
"""

from dataclasses import dataclass
from math import sqrt

FLOOR = 16
"""A pass over fewer tokens costs hardly less."""
CEILING = 2048
"""Tokens of a step: what is computed beside them takes memory too."""
_UNMEASURED = 256
_ALONE = 4.0
"""Without running streams a chunk may take this many stall targets."""
_GAP = 1.4
"""Stall targets for a chunk and the decode step after it together. Twice the target is what was promised; the rest is
for what other work does to a machine.
"""
_LEAST = 0.25
"""The part of a stall target that a chunk gets however long decoding takes: prompts must come to an end."""
_WEIGHT = 0.5
_MEANINGFUL = 16
"""Tokens below which a measurement says more about overhead than about speed."""
_MEMORY = 0.98
"""What a measurement weighs against the next one when the cost of looking back is estimated."""
_SPREAD = 128.0
"""Lengths that lie closer together than this, in tokens, tell little about the cost of looking back."""
_DEAREST = 1 / 512
"""Looking back at so many tokens never costs less than one more token: an estimate that is too high would let a chunk
at the beginning of the next prompt grow too long.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """Prompt tokens that were computed, the pairs of such a token and one before it, and the seconds it all took."""

    tokens: int = 0
    pairs: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(self.tokens + other.tokens, self.pairs + other.pairs, self.seconds + other.seconds)


NOTHING_READ = Reading()


def pairs(start: int, tokens: int) -> float:
    """Of so many tokens after `start` others."""
    return tokens * (start + tokens / 2)


class Pace:
    """The seconds that prompt tokens and decode steps take, as last measured.

    A chunk is t tokens and p pairs of work: `t + back * p`. Seconds for a unit of work follow the machine at once;
    `back` belongs to model and device, so all measurements tell, weighed by tokens: a straight line through seconds
    per token over the length looked back at.
    """

    def __init__(self) -> None:
        self._unit: float | None = None
        self._decode = 0.0
        self._back = 0.0
        self._sums = [0.0] * 5  # of weight, and of x, y, xx, xy so weighed

    def read(self, reading: Reading) -> None:
        tokens = reading.tokens
        if tokens < _MEANINGFUL or reading.seconds <= 0:
            return
        self._learn_back(tokens, reading.pairs / tokens, reading.seconds / tokens)
        unit = reading.seconds / (tokens + self._back * reading.pairs)
        self._unit = unit if self._unit is None else self._unit + _WEIGHT * (unit - self._unit)

    def decoded(self, seconds: float) -> None:
        """A decode step's own time."""
        if seconds > 0:
            self._decode = seconds if not self._decode else self._decode + _WEIGHT * (seconds - self._decode)

    def budget(self, stall_seconds: float, decoding: bool) -> float:
        """The work that a step's chunks may be together."""
        if self._unit is None:
            return _UNMEASURED * (1.0 if decoding else _ALONE)
        seconds = stall_seconds * _ALONE
        if decoding:
            room = _GAP * stall_seconds - self._decode
            seconds = max(_LEAST * stall_seconds, min(stall_seconds, room))
        return max(FLOOR, min(CEILING, seconds / self._unit))

    def tokens(self, budget: float, start: int) -> int:
        """How many tokens after `start` others that is, within bounds."""
        each = 1 + self._back * start
        # budget = each * t + back / 2 * t²
        most = 2 * budget / (each + sqrt(each * each + 2 * self._back * max(budget, 0.0)))
        return max(FLOOR, min(CEILING, round(most)))

    def work(self, start: int, tokens: int) -> float:
        return tokens + self._back * pairs(start, tokens)

    def _learn_back(self, weight: float, x: float, y: float) -> None:
        old, new = self._sums, (weight, weight * x, weight * y, weight * x * x, weight * x * y)
        self._sums = sums = [_MEMORY * before + more for before, more in zip(old, new, strict=True)]
        mean_x, mean_y, mean_xx, mean_xy = (part / sums[0] for part in sums[1:])
        slope = (mean_xy - mean_x * mean_y) / (mean_xx - mean_x * mean_x + _SPREAD * _SPREAD)
        level = mean_y - slope * mean_x
        self._back = min(max(slope / level, 0.0), _DEAREST) if level > 0 else _DEAREST
