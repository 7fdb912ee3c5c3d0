"""What a program says last on a pipe: read while it runs, kept to its end, and slowly where it says very much."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast

EAGER_BYTES = 1 << 20
PAUSE_SECONDS = 0.01
"""Between two reads of a program that has said more than that: a flood costs us next to nothing, and no disk."""
LAST_BYTES = 1 << 20
"""Read at most once the program has ended: what it left behind may write on."""


@dataclass(slots=True)
class Tail(asyncio.Protocol):
    """`kept` are the last `most` bytes so far; `writing` is the end the program is given."""

    most: int
    writing: int
    reading: int
    kept: bytes = b""
    _seen: int = 0
    _transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self.kept = (self.kept + data)[-self.most :]
        self._seen += len(data)
        if self._seen > EAGER_BYTES and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._resume)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def _resume(self) -> None:
        if self._transport is not None and self._is_open:
            self._transport.resume_reading()

    def rest(self) -> bytes:
        """All that was kept, with what still lies in the pipe: nothing where its end was read, which closed it."""
        left = LAST_BYTES
        with suppress(BlockingIOError):
            while self._is_open and left > 0 and (data := os.read(self.reading, 65536)):
                self.kept, left = (self.kept + data)[-self.most :], left - len(data)
        return self.kept

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def given(self) -> None:
        """The program has its end: ours is closed, once."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


@asynccontextmanager
async def tail(most: int) -> AsyncIterator[Tail]:
    """A pipe of which the last `most` bytes are kept."""
    reading, writing = os.pipe()
    kept = Tail(most, writing, reading)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: kept, os.fdopen(reading, "rb", 0))
    try:
        yield kept
    finally:
        kept.given()
        transport.close()
