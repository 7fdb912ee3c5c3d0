"""When an engine that should be working, or loading, is taken for hung. PURE."""

from dataclasses import dataclass, replace

FLOOR_SECONDS = 30.0
LOOKS = 4
"""Looks without progress before the shortest bound is over; a clock that jumps counts as two of them at most."""
SLOWER = 4
"""The longest gap between steps may be exceeded so many times; before the first step, which compiles and reads what
the load left for later, the floor as well."""
STALLS = 20
"""Chunks are sized to keep `stall_target`: so many times that is no misjudgement any more."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How long without progress is a hang: never less than `floor` seconds."""

    floor: float = FLOOR_SECONDS

    @property
    def interval(self) -> float:
        """Seconds between two looks, and the longest wait for an answer."""
        return self.floor / LOOKS


@dataclass(frozen=True, slots=True)
class Progress:
    """What the looks at an engine have shown: steps landed, seconds without one, the longest such gap before."""

    steps: int = 0
    stuck: float = 0.0
    longest: float = 0.0

    def look(self, steps: int | None, running: int, passed: float, interval: float) -> "Progress":
        """After `passed` seconds it says so many steps and running rows; None where it did not answer in time."""
        if steps is None or (running and steps == self.steps):
            return replace(self, stuck=self.stuck + min(passed, 2 * interval))
        gap = self.stuck + passed if self.stuck else 0.0
        return Progress(steps, 0.0, max(self.longest, gap))

    def hung(self, bound: Bound, stall_target: float) -> bool:
        """Whether waiting any longer is no use."""
        floor = bound.floor if self.steps else bound.floor * SLOWER
        return self.stuck >= max(floor, self.longest * SLOWER, stall_target * STALLS)


@dataclass(frozen=True, slots=True)
class Signs:
    """What the looks at an engine that loads have shown: the frames heard of it, the processor time it has used, and
    the seconds since one of them last grew.

    A load may be as slow as its disk: it answers pings meanwhile. One call that lets no other thread of its process
    answer uses processor time. An engine that is stopped does neither.
    """

    heard: int = 0
    worked: int | None = None
    still: float = 0.0

    def look(self, heard: int, worked: int | None, passed: float, interval: float) -> "Signs":
        """After `passed` seconds; `worked` is None where this system does not tell."""
        alive = (heard, worked) != (self.heard, self.worked)
        return Signs(heard, worked, 0.0 if alive else self.still + min(passed, 2 * interval))

    def hung(self, bound: Bound) -> bool:
        """Whether waiting any longer is no use: where only silence tells, that takes longer."""
        return self.still >= bound.floor * (1 if self.worked is not None else SLOWER)
