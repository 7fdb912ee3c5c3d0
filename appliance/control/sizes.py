"""What engines took when they were loaded last, kept over restarts: better than any estimate."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

import msgspec

KEPT = 500
"""Engines remembered; those measured longest ago are forgotten first."""


class Sizes:
    """Bytes by an engine's fingerprint, written to `path` at every change; kept in memory only without one.

    A file that is missing or unreadable is one that holds nothing. Methods may be called from any thread.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._writing = Lock()
        self._known = dict(_read(path)) if path is not None else {}

    def get(self, fingerprint: str) -> int | None:
        """What it took when it was measured last."""
        return self._known.get(fingerprint)

    def note(self, fingerprint: str, size: int) -> None:
        """It has just been measured. Writes a file; where that cannot be written it is known until we end."""
        with self._writing:
            self._known.pop(fingerprint, None)
            self._known[fingerprint] = size
            self._known = dict(list(self._known.items())[-KEPT:])
            if self._path is not None:
                with suppress(OSError):
                    _write(self._path, msgspec.json.encode(self._known))


def _read(path: Path) -> Iterator[tuple[str, int]]:
    try:
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.MsgspecError):
        return
    yield from ((fingerprint, size) for fingerprint, size in known.items() if size > 0)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, whenever the machine stops."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)
