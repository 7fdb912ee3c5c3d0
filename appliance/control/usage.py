"""What keys have used, kept on disk so that a restart forgives nothing: one writer thread, off the loop.

Two tables: the total of every key's day, which its quota is held against, and for each hour what every key used of
every model, which is for people.
"""

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple, dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from appliance import log
from appliance.errors import ApplianceError

HOUR = 3600
KEPT_DAYS = 400
"""A year, and the month in which it is looked at."""


@dataclass(frozen=True, slots=True)
class Used:
    """Of the prompt tokens `cached_tokens` were not computed again."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Record:
    """What a key used of a model in an hour that began at `start`, Unix seconds; `key` "" is who needed none."""

    start: int
    key: str
    model: str
    used: Used


class Unreadable(ApplianceError):
    """The file of usage records is damaged, or not ours."""

    code = "usage_unreadable"


COUNTS = tuple(field.name for field in fields(Used))

_CREATE = (
    "CREATE TABLE IF NOT EXISTS daily (key TEXT, day TEXT, tokens INTEGER NOT NULL, PRIMARY KEY (key, day))",
    "CREATE TABLE IF NOT EXISTS hourly (hour INTEGER, key TEXT, model TEXT,"
    f" {', '.join(f'{name} INTEGER NOT NULL' for name in COUNTS)}, PRIMARY KEY (hour, key, model)) WITHOUT ROWID",
)
_PUT = "INSERT INTO daily VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = excluded.tokens"
_ADD = (
    f"INSERT INTO hourly VALUES (?, ?, ?{', ?' * len(COUNTS)}) ON CONFLICT DO UPDATE SET "
    f"{', '.join(f'{name} = {name} + excluded.{name}' for name in COUNTS)}"
)
_SELECT = "SELECT * FROM hourly WHERE hour >= ? AND hour < ? ORDER BY hour, key, model"


class Usage:
    """Totals and records of one file. Writes are in order; leaving the block waits for the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="usage")
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        # What is not written yet is added up, so that a slow disk costs no memory.
        self._days: dict[tuple[str, str], int] = {}
        self._hours: dict[tuple[int, str, str], Used] = {}
        self._due = False

    def of(self, day: date) -> dict[str, int]:
        """The tokens of that day by key, blocking. An unreadable file counts as empty, and is said in the log."""
        return self._writer.submit(self._of, day).result()

    def put(self, key: str, day: date, tokens: int) -> None:
        """Remember the total of a key's day; returns at once."""
        with self._lock:
            self._days[key, day.isoformat()] = tokens
            self._write_soon()

    def add(self, key: str, model: str, used: Used, now: float) -> None:
        """Record what a request used that ended `now`, in Unix seconds; returns at once."""
        hour = int(now // HOUR)
        with self._lock:
            self._hours[hour, key, model] = self._hours.get((hour, key, model), Used()) + used
            self._write_soon()

    def _write_soon(self) -> None:
        if not self._due:
            self._due = True
            self._writer.submit(self._write)

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
            for table in _CREATE:
                self._connection.execute(table)
        return self._connection

    def _of(self, day: date) -> dict[str, int]:
        oldest = day - timedelta(days=KEPT_DAYS)
        try:
            connection = self._open()
            connection.execute("DELETE FROM daily WHERE day < ?", (oldest.isoformat(),))
            connection.execute("DELETE FROM hourly WHERE hour < ?", ((oldest - date(1970, 1, 1)).days * 24,))
            return dict(connection.execute("SELECT key, tokens FROM daily WHERE day = ?", (day.isoformat(),)))
        except (sqlite3.Error, OSError) as error:
            log.get().error("usage.unreadable", file=str(self._path), reason=str(error))
            return {}

    def _write(self) -> None:
        with self._lock:
            days, self._days = self._days, {}
            hours, self._hours = self._hours, {}
            self._due = False
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_PUT, ((*at, tokens) for at, tokens in days.items()))
            connection.executemany(_ADD, ((*at, *astuple(used)) for at, used in hours.items()))
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            # What is served matters more than what is remembered.
            keys = sorted({key for key, _ in days} | {key for _, key, _ in hours})
            log.get().error("usage.not_recorded", keys=keys, reason=str(error))
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
            self._put_back(days, hours)

    def _put_back(self, days: dict[tuple[str, str], int], hours: dict[tuple[int, str, str], Used]) -> None:
        """Written with the next record, when the disk may have room again; a total said meanwhile is newer."""
        with self._lock:
            self._days = days | self._days
            for at, used in hours.items():
                self._hours[at] = used + self._hours.get(at, Used())

    def _close(self) -> None:
        if self._days or self._hours:
            self._write()
        if self._connection is not None:
            self._connection.close()


def recorded(path: Path, since: float, until: float) -> Iterator[Record]:
    """The hours from the one that `since` is in to the last that began before `until`, Unix seconds, oldest first,
    also while an appliance writes them. Raises Unreadable.
    """
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'hourly'").fetchone():
                return
            for hour, key, model, *counts in connection.execute(_SELECT, (since // HOUR, until / HOUR)):
                yield Record(hour * HOUR, key, model, Used(*counts))
    except sqlite3.Error as error:
        if not os.access(path, os.R_OK):
            raise Unreadable(f"{path} cannot be read: {os.strerror(errno.EACCES)}") from None
        raise Unreadable(f"{path} cannot be read: {error}; move it away, and a new one is begun") from None
