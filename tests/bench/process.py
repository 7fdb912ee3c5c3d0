"""Processes of ours: started, ended, and what they take of the machine. Linux: reads /proc."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 20
NOISE_CORES = 0.1
"""Where other processes use more than this, a measurement is no good."""


def exit_on_sigterm() -> None:
    """Let SIGTERM unwind this process, so that what it started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@contextmanager
def running(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a session of its own, its output in `log`; it is ended on the way out."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own session; its whole group where it does not end by itself."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = defaultdict[int, list[int]](list)
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            children[int(_stat(int(entry))[1])].append(int(entry))
    found = [pid]
    for parent in found:  # grows while it is walked
        found += children[parent]
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, its descendants, and those of them that have ended."""
    ticks = 0
    for member in tree(pid):
        with suppress(OSError):
            ticks += sum(map(int, _stat(member)[11:15]))  # utime stime cutime cstime
    return ticks / TICKS


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process and its descendants: shared pages are divided among those who map them."""
    total = 0
    for member in tree(pid):
        with suppress(OSError):
            rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024


def own_cpu_seconds() -> float:
    """CPU time of this process alone."""
    times = os.times()
    return times.user + times.system


class Noise:
    """How many cores everybody else has used since this was made; `ours` counts our own CPU seconds."""

    def __init__(self, ours: Callable[[], float]) -> None:
        self._ours = ours
        self._before = self._read()

    def cores(self) -> float:
        """Cores, averaged over the time since; what the hypervisor gave to other machines counts too."""
        (then, busy, own), (now, busy_now, own_now) = self._before, self._read()
        return max(0.0, (busy_now - busy - (own_now - own)) / (now - then))

    def _read(self) -> tuple[float, float, float]:
        return time.perf_counter(), _busy_seconds(), self._ours()


def wait_quiet(limit_seconds: float) -> None:
    """Return when the whole machine has been idle for a second, or after `limit_seconds`."""
    end = time.monotonic() + limit_seconds
    while time.monotonic() < end:
        noise = Noise(lambda: 0.0)
        time.sleep(1)
        if noise.cores() < NOISE_CORES:
            return


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold blanks: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _busy_seconds() -> float:
    """CPU seconds of the whole machine in which it was not idle."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, _first_line("/proc/stat").split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def _first_line(path: str) -> str:
    with open(path) as file:
        return file.readline()
