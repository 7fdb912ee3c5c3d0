"""What macOS counts of a process: the numbers of its `struct rusage_info_v0`. Unverified: written without a Mac."""

import ctypes
import sys
from functools import cache

USER_TIME, SYSTEM_TIME, PHYS_FOOTPRINT = 16, 24, 72
"""Where these numbers of eight bytes stand, behind a UUID (`libproc.h`, `sys/resource.h`)."""
_BYTES = 512


def of(pid: int, *places: int) -> list[int] | None:
    """The numbers at these places; None if the process is gone."""
    buffer = ctypes.create_string_buffer(_BYTES)
    if _libc().proc_pid_rusage(pid, 0, buffer) != 0:
        return None
    return [int.from_bytes(buffer.raw[at : at + 8], sys.byteorder) for at in places]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
