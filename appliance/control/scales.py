"""How many tokens families make of what was estimated from bytes, kept over restarts."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from appliance.control.calibration import BOUNDS, learned

SAVE_SECONDS = 30.0
"""How often what was learned is written: it is asked for on every prompt, and moves slowly."""
MOST_FAMILIES = 500


class Scales:
    """By family, the scale of `appliance.control.calibration`, read from `path`; in memory only without one.

    A file that is missing or unreadable is one that holds nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.known: dict[str, float] = _read(path) if path is not None else {}
        self._saved = dict(self.known)

    def read(self, family: str, estimated: int, actual: int) -> None:
        """A prompt had so many tokens."""
        scale = learned(self.known.get(family), estimated, actual)
        if scale is not None and (family in self.known or len(self.known) < MOST_FAMILIES):
            self.known[family] = scale

    def save(self) -> None:
        """Write what was learned since the last time; where that cannot be written it is known until we end."""
        known = dict(self.known)
        if self._path is None or known == self._saved:
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            beside.write_bytes(msgspec.json.encode(known))
            beside.replace(self._path)
            self._saved = known


def _read(path: Path) -> dict[str, float]:
    try:
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.MsgspecError):
        return {}
    low, high = BOUNDS
    return {family: scale for family, scale in list(known.items())[:MOST_FAMILIES] if low <= scale <= high}
