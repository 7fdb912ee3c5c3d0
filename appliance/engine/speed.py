"""How many prompt tokens one step takes, from measured speed: running streams wait for a chunk, so it is sized by
time; where none run, newcomers and cancels wait for it, which is less urgent.
"""

FLOOR = 32
CEILING = 2048
_UNMEASURED = 256
_ALONE = 4.0
"""Without running streams a chunk may take this many stall targets."""
_WEIGHT = 0.5
_MEANINGFUL = 16
"""Tokens below which a measurement says more about overhead than about speed."""


class PrefillSpeed:
    """A running average of prompt tokens per second."""

    def __init__(self) -> None:
        self._speed: float | None = None

    def measured(self, tokens: int, seconds: float) -> None:
        if tokens < _MEANINGFUL or seconds <= 0:
            return
        speed = tokens / seconds
        self._speed = speed if self._speed is None else self._speed + _WEIGHT * (speed - self._speed)

    def chunk_tokens(self, stall_seconds: float, decoding: bool) -> int:
        """The token budget of a step's chunks."""
        patience = 1.0 if decoding else _ALONE
        if self._speed is None:
            return int(_UNMEASURED * patience)
        return max(FLOOR, min(CEILING, int(self._speed * stall_seconds * patience)))
