"""Medians with their intervals, percentiles and Markdown tables. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, comb
from statistics import median

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and two of the values between which the true median lies with probability `coverage`."""

    low: float
    median: float
    high: float
    coverage: float

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval(values: Sequence[float]) -> Interval:
    """The narrowest pair of order statistics that holds the median with 95 %, assuming independent rounds only.

    At 6 to 8 values that is the smallest and the largest; with fewer they hold it less often, and `coverage` says so.
    """
    ordered, count = sorted(values), len(values)
    inward = max((k for k in range((count + 1) // 2) if _coverage(count, k) >= CONFIDENCE), default=0)
    return Interval(ordered[inward], median(ordered), ordered[count - 1 - inward], _coverage(count, inward))


def _coverage(count: int, inward: int) -> float:
    """How often the median lies between the values `inward` places from either end."""
    outside = sum(comb(count, k) for k in range(inward + 1)) / 2.0**count
    return max(0.0, 1 - 2 * outside)


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed; 0 for no values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(percent / 100 * len(ordered)) - 1)] if ordered else 0.0


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
