"""What processes take of this machine's memory, measured: PSS on Linux, the physical footprint on macOS."""

import ctypes
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KIB = 1024
_FOOTPRINT_AT = 72
"""Where `ri_phys_footprint` stands in macOS' `struct rusage_info_v0`: after a UUID and seven numbers."""
_RUSAGE_BYTES = 512


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
        return _footprint(pid)  # Unverified: written without a Mac at hand.
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


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _footprint(pid: int) -> int | None:
    buffer = ctypes.create_string_buffer(_RUSAGE_BYTES)
    if _libc().proc_pid_rusage(pid, 0, buffer) != 0:
        return None
    return int.from_bytes(buffer.raw[_FOOTPRINT_AT : _FOOTPRINT_AT + 8], sys.byteorder)
