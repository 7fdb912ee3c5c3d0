"""Brings the files of a model to this machine, whatever kind of source it has.

As a process: `python -m appliance.models.pull [--store DIRECTORY] [--hub DIRECTORY] SOURCE`, where SOURCE is a source
written in full. It writes one JSON object a line to stdout: `{"phase": "download", "done": 1, "total": 2}` while it
works (bytes; `total` 0 is unknown; the other phase is `convert`), then either `{"path": "…"}` with exit status 0 or
`{"error": "…", "permanent": true}` with 1. Ending the process leaves nothing half done that a later pull would trust.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import msgspec

from appliance.config.deployment import Source
from appliance.config.sources import in_full, parse
from appliance.errors import SourceError
from appliance.models.disk import only_one
from appliance.models.fetched import note
from appliance.models.progress import Report, silent
from appliance.models.sources import FETCH
from appliance.models.store import Store, default_root, hub_cache


def pull(source: Source, store: Store, report: Report = silent) -> Path:
    """The directory (or script) an engine loads, fetched where it is not here yet. Raises SourceError."""
    if path := store.locate(source):
        return path
    with only_one(store.lock(source)):
        if (path := store.locate(source)) is None:
            FETCH[source.kind](source, store, report)
            note(source, store)
            path = store.locate(source)
    if path is None:
        raise SourceError(f"{in_full(source)} was fetched but is not usable as a model")
    return path


def command(source: Source, store: Store) -> list[str]:
    """How to pull in a process of its own; in a checkout, PYTHONPATH has to name it."""
    where = ["--store", str(store.root), "--hub", str(store.hub)]
    return [sys.executable, "-P", "-m", "appliance.models.pull", *where, in_full(source)]


class _Lines:
    """One JSON object a line; a phase that has not moved by a hundredth is not said again."""

    def __init__(self) -> None:
        self._said: tuple[str, int] = ("", -1)

    def report(self, phase: str, done: int, total: int) -> None:
        now = (phase, 100 * done // total if total else done)
        if now != self._said:
            self._said = now
            self.say({"phase": phase, "done": done, "total": total})

    @staticmethod
    def say(message: dict[str, object]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m appliance.models.pull", description=__doc__)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--hub", type=Path)
    parser.add_argument("source")
    given = parser.parse_args(arguments)
    store = Store(given.store or default_root(), given.hub or hub_cache())
    lines = _Lines()
    # Ended from outside, clean up as for any other end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        source = parse(given.source, os.getcwd(), {}, home=str(Path.home()))
        path = pull(source, store, lines.report)
    except (SourceError, ValueError) as error:
        lines.say({"error": str(error), "permanent": getattr(error, "permanent", True)})
        return 1
    lines.say({"path": str(path)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
