"""What keys have used today, kept on disk so that a restart forgives nothing: one writer thread, off the loop."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self

from appliance import log

_CREATE = "CREATE TABLE IF NOT EXISTS daily (key TEXT, day TEXT, tokens INTEGER NOT NULL, PRIMARY KEY (key, day))"
_PUT = "INSERT INTO daily VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = excluded.tokens"


class Usage:
    """Totals by key and day, of one file. Writes are in order; leaving the block waits for the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="usage")
        self._connection: sqlite3.Connection | None = None

    def of(self, day: date) -> dict[str, int]:
        """The tokens of that day by key, blocking. An unreadable file counts as empty, and is said in the log."""
        return self._writer.submit(self._of, day).result()

    def put(self, key: str, day: date, tokens: int) -> None:
        """Remember the total of a key's day; returns at once."""
        self._writer.submit(self._put, key, day, tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.submit(self._close)
        self._writer.shutdown(wait=True)

    # ---- in the writer's thread
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.touch(mode=0o600)
            self._connection = sqlite3.connect(self._path, isolation_level=None)
            # A crash of the process loses nothing; one of the machine may lose the last moments.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_CREATE)
        return self._connection

    def _of(self, day: date) -> dict[str, int]:
        try:
            return dict(self._open().execute("SELECT key, tokens FROM daily WHERE day = ?", (day.isoformat(),)))
        except (sqlite3.Error, OSError) as error:
            log.get().error("usage.unreadable", file=str(self._path), reason=str(error))
            return {}

    def _put(self, key: str, day: date, tokens: int) -> None:
        try:
            self._open().execute(_PUT, (key, day.isoformat(), tokens))
        except (sqlite3.Error, OSError) as error:
            # What is served matters more than what is remembered.
            log.get().error("usage.not_recorded", key=key, reason=str(error))

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
