"""What processes take of this machine's memory, measured: PSS on Linux, the physical footprint on macOS."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from appliance.control import rusage

KIB = 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes each process takes, and those nobody takes; None where this system does not tell."""

    processes: dict[int, int]
    available: int | None

    @property
    def capacity(self) -> int | None:
        """What these processes have and could get."""
        return None if self.available is None else self.available + sum(self.processes.values())


def measure(pids: Iterable[int]) -> Measured:
    """Look at these processes now; those that are gone are left out. May take some milliseconds each."""
    found = {pid: taken(pid) for pid in pids}
    return Measured({pid: size for pid, size in found.items() if size is not None}, available())


def taken(pid: int) -> int | None:
    """What one process takes, its part of what it shares included; None if it is gone or nobody tells."""
    if sys.platform == "darwin":
        found = rusage.of(pid, rusage.PHYS_FOOTPRINT)
        return None if found is None else found[0]
    return _field(f"/proc/{pid}/smaps_rollup", "Pss:")


def available() -> int | None:
    """What could be had without taking it from anybody."""
    return _field("/proc/meminfo", "MemAvailable:")


def _field(path: str, name: str) -> int | None:
    """A line like `Pss:  1234 kB`."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith(name)), None)
