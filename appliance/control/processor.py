"""How much a process has worked, as its system counts it."""

import sys
from pathlib import Path

from appliance.control import rusage

_USER_TIME, _SYSTEM_TIME = 14 - 3, 15 - 3
"""Fields of `/proc/<pid>/stat` (proc(5)), counted from the one behind the name, which may have blanks in it."""


def worked(pid: int) -> int | None:
    """The processor time it has used, in the system's own ticks: good for telling that it grows. None if the process
    is gone or nobody tells.
    """
    if sys.platform == "darwin":
        times = rusage.of(pid, rusage.USER_TIME, rusage.SYSTEM_TIME)
        return None if times is None else sum(times)
    try:
        _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return None
    told = fields.split()
    return int(told[_USER_TIME]) + int(told[_SYSTEM_TIME])
