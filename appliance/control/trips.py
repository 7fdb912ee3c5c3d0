"""When a model that keeps failing is left alone for a while, since others answer in its place. PURE.

After so many failures in a row it is not tried for the dwell; then one request is let through to find out, and the
next one only after another dwell, unless that one was answered.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """`failures` in a row; `since` is when it was last found failing, None while it is tried."""

    failures: int = 0
    since: float | None = None


@dataclass(slots=True)
class Trips:
    """By model, how it stands. `now` are seconds of any clock that never goes back."""

    standings: dict[str, Standing]

    def admits(self, model: str, dwell: float, now: float) -> bool:
        """Whether it is tried; whoever is let through after the dwell is the only one for another."""
        standing = self.standings.get(model, Standing())
        if standing.since is None:
            return True
        if now - standing.since < dwell:
            return False
        self.standings[model] = Standing(standing.failures, now)
        return True

    def failed(self, model: str, trip: int, now: float) -> None:
        """It did not answer."""
        failures = self.standings.get(model, Standing()).failures + 1
        self.standings[model] = Standing(failures, now if failures >= trip else None)

    def answered(self, model: str) -> None:
        """It did."""
        self.standings.pop(model, None)
