"""The batches there are, and the results of those that run: written in order by one thread, off the loop.

A result is appended to its file before it is counted, so those files tell what is done, whatever ended the process.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from appliance import log
from appliance.errors import UnknownBatch
from appliance.protocols import batch_lines
from appliance.protocols.batch_lines import Entry
from appliance.protocols.batches import Batch, Problem
from appliance.protocols.files import File
from appliance.server.file_store import FileStore, replace

P = ParamSpec("P")
T = TypeVar("T")


def output_id(batch: str) -> str:
    """The file of a batch's answers; known beforehand, so that ending a batch twice gives one file."""
    return f"file-{batch.partition('_')[2]}o"


def errors_id(batch: str) -> str:
    """The file of what failed."""
    return f"file-{batch.partition('_')[2]}e"


def input_id(batch: str) -> str:
    """The file of the requests that came with a batch itself."""
    return f"file-{batch.rpartition('_')[2]}i"


class BatchStore:
    """All batches of a directory, read when this is made (blocking). `close` it in the end."""

    def __init__(self, directory: Path, files: FileStore) -> None:
        self._directory, self._files = directory, files
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._batches = {batch.id: batch for batch in self._read()}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._changes: asyncio.Queue[str] = asyncio.Queue()

    def close(self) -> None:
        """Wait for the last write."""
        self._writer.shutdown(wait=True)

    def get(self, id: str, key: str | None, prefix: str = "") -> Batch:
        """The batch of this id, which begins with `prefix`, for the holder of a key. Raises UnknownBatch."""
        batch = self._batches.get(id)
        if batch is None or key not in (None, batch.key) or not id.startswith(prefix):
            raise UnknownBatch(f"there is no batch {id[:64]!r}", param="batch_id")
        return batch

    def all(self, key: str | None = None, prefix: str = "") -> list[Batch]:
        """Those of a key's holder whose ids begin so, oldest first."""
        mine = (batch for id, batch in self._batches.items() if key in (None, batch.key) and id.startswith(prefix))
        return sorted(mine, key=lambda batch: (batch.times["validating"], batch.id))

    async def ask(self, batch: Batch) -> None:
        """Remember a batch that is new or to be ended, and tell whoever runs batches."""
        await self.save(batch)
        self.change(batch.id)

    def change(self, id: str) -> None:
        """Tell whoever runs batches that something was asked of this one."""
        self._changes.put_nowait(id)

    async def changed(self) -> str:
        """Wait for the next batch something was asked of."""
        return await self._changes.get()

    def users(self, file: str) -> list[Batch]:
        """The batches that still need a file."""
        return [batch for batch in self._batches.values() if batch.input_file == file and not batch.ended]

    async def save(self, batch: Batch) -> None:
        """Remember this state of a batch."""
        self._batches[batch.id] = batch
        await self._write(replace, self._directory / f"{batch.id}.json", msgspec.json.encode(batch))

    def count(self, batch: Batch) -> None:
        """Remember how far it is; its files say that too, so nothing is written."""
        self._batches[batch.id] = batch

    async def remove(self, batch: Batch) -> None:
        """Forget a batch, its input and its results."""
        self._batches.pop(batch.id, None)
        await self._write(self._remove, batch)

    # ---- the input and its results
    async def keep_input(self, batch: Batch, lines: bytes) -> None:
        """Write down the requests that came with a batch itself. Raises OSError."""
        await self._write(replace, self._files.path(batch.input_file), lines)

    async def input(self, batch: Batch) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
        """The requests of its input."""
        return await asyncio.to_thread(self._input, batch)

    async def line(self, batch: Batch, entry: Entry) -> bytes:
        """One line of its input. Raises OSError."""
        return await asyncio.to_thread(_part, self._files.path(batch.input_file), entry.start, entry.length)

    async def done(self, batch: Batch) -> tuple[dict[str, bool], dict[str, bool]]:
        """The requests with an answer, and those that failed, with whether they were run; half a line that a crash
        left is cut off.
        """
        return await self._write(self._done, batch.id)

    async def append(self, file: str, line: bytes) -> None:
        """Add a result to a file. Raises OSError."""
        await self._write(_append, self._files.path(file), line)

    def results(self, batch: Batch) -> Iterator[bytes]:
        """The lines of its results, answers first. Blocking. Raises OSError."""
        for file in (output_id(batch.id), errors_id(batch.id)):
            if (path := self._files.path(file)).exists():
                with path.open("rb") as lines:
                    yield from lines

    async def finish(self, file: str, name: str, batch: Batch, now: int) -> str | None:
        """Make a file of results one that can be asked for; None where there are none."""
        if batch.of_messages:
            return None
        expires = None if batch.keep is None else now + batch.keep
        return await self._write(self._finish, file, name, batch.key, now, expires)

    def _write(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> "asyncio.Future[T]":
        writing: Future[T] = self._writer.submit(work, *arguments, **named)
        # What was begun is done, also where nobody waits for it any more.
        return asyncio.shield(asyncio.wrap_future(writing))

    # ---- in threads
    def _input(self, batch: Batch) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
        try:
            with self._files.path(batch.input_file).open("rb") as file:
                return batch_lines.read_input(file, batch.endpoint)
        except OSError:
            return (), (Problem("file_not_found", "the input file is not there any more", "input_file_id"),)

    def _remove(self, batch: Batch) -> None:
        (self._directory / f"{batch.id}.json").unlink(missing_ok=True)
        for file in (batch.input_file, output_id(batch.id), errors_id(batch.id)):
            self._files.path(file).unlink(missing_ok=True)

    def _done(self, batch: str) -> tuple[dict[str, bool], dict[str, bool]]:
        answered, failed = (self._whole(file) for file in (output_id(batch), errors_id(batch)))
        return answered, failed

    def _whole(self, id: str) -> dict[str, bool]:
        path = self._files.path(id)
        if not path.exists():
            return {}
        with path.open("rb") as file:
            ids, whole = batch_lines.done(file)
        if whole < path.stat().st_size:
            os.truncate(path, whole)
        return ids

    def _finish(self, id: str, name: str, key: str | None, now: int, expires: int | None) -> str | None:
        path = self._files.path(id)
        if not path.exists():
            return None
        self._files.add(File(id, path.stat().st_size, now, name, "batch_output", expires, key))
        return id

    def _read(self) -> Iterator[Batch]:
        for record in self._directory.glob("*.json"):
            try:
                yield msgspec.json.decode(record.read_bytes(), type=Batch)
            except (OSError, msgspec.MsgspecError) as error:
                log.get().error("batches.unreadable", file=str(record), reason=str(error))


def _part(path: Path, start: int, length: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), length, start)


def _append(path: Path, line: bytes) -> None:
    """All of the line or nothing of it, whatever becomes of the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        before, rest = os.fstat(descriptor).st_size, memoryview(line)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)
