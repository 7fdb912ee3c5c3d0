"""The threads that read and write prefixes on disk, so that the step loop never waits for a file."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from appliance import log
from appliance.engine import disk_entry
from appliance.engine.disk_entry import BrokenEntry, Entry, Frozen
from appliance.vocab.spec import DiskSettings


@dataclass(frozen=True, slots=True)
class Found:
    """What lies on disk at the start."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """An entry was read; `whole` false: it is gone now."""

    entry: Entry
    whole: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A prefix was written; None where that failed."""

    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Settled:
    """The time asked for has passed."""


News = Found | Verified | Written | Settled
Job = Callable[[], None]


class DiskWorker:
    """One directory of prefixes of one key. `post` takes the news, from other threads."""

    def __init__(self, settings: DiskSettings, key: str, post: Callable[[News], None]) -> None:
        self._root = Path(settings.path)
        self.home = self._root / key
        self._settings = settings
        self._post = post
        self._reading, self._writing = SimpleQueue[Job | None](), SimpleQueue[Job | None]()
        self._alarm: float | None = None
        for name, jobs in (("disk-read", self._reading), ("disk-write", self._writing)):
            threading.Thread(target=self._run, args=(jobs,), name=name, daemon=True).start()

    def close(self) -> None:
        """Let both threads end with what they have."""
        self._reading.put(None)
        self._writing.put(None)

    def resize(self, settings: DiskSettings) -> None:
        """Another cap or time to live, for the same directory."""
        self._settings = settings
        self._writing.put(self._sweep)

    def scan(self) -> None:
        self._reading.put(lambda: self._post(Found(tuple(disk_entry.scan(self.home, _lost)))))
        self._writing.put(self._sweep)

    def verify(self, entry: Entry) -> None:
        self._reading.put(lambda: self._verify(entry))

    def touch(self, entry: Entry) -> None:
        self._writing.put(lambda: disk_entry.touch(entry.folder))

    def remove(self, entry: Entry) -> None:
        self._writing.put(lambda: disk_entry.remove(entry.folder))

    def write(self, namespace: str, tokens: tuple[int, ...], shortest: int, frozen: Frozen) -> None:
        self._writing.put(lambda: self._write(namespace, tokens, shortest, frozen))

    def call_in(self, seconds: float) -> None:
        """Post Settled after so long."""
        at = time.monotonic() + seconds
        self._writing.put(lambda: setattr(self, "_alarm", at))

    def _run(self, jobs: SimpleQueue[Job | None]) -> None:
        while True:
            rings = jobs is self._writing and self._alarm is not None
            try:
                job = jobs.get(timeout=max(0.0, (self._alarm or 0.0) - time.monotonic()) if rings else None)
            except Empty:
                self._alarm = None
                self._post(Settled())
                continue
            if job is None:
                return
            job()

    def _verify(self, entry: Entry) -> None:
        try:
            disk_entry.verify(entry.folder)
        except BrokenEntry as broken:
            disk_entry.remove(entry.folder)
            _lost(entry.folder, str(broken))
            self._post(Verified(entry, False))
        else:
            disk_entry.touch(entry.folder)
            self._post(Verified(entry, True))

    def _write(self, namespace: str, tokens: tuple[int, ...], shortest: int, frozen: Frozen) -> None:
        entry: Entry | None = None
        try:
            entry = disk_entry.write(self.home, namespace, tokens, shortest, frozen)
        except OSError as error:
            log.get().warning("disk.not_written", path=str(self.home), reason=error.strerror or str(error))
        self._sweep()
        self._post(Written(entry))

    def _sweep(self) -> None:
        oldest = time.time() - self._settings.ttl
        for folder in disk_entry.surplus(disk_entry.kept(self._root), self._settings.bytes, oldest):
            disk_entry.remove(folder)
            log.get().debug("disk.removed", entry=folder.name)


def _lost(folder: Path, reason: str) -> None:
    log.get().warning("disk.broken_entry_removed", entry=str(folder), reason=reason)
