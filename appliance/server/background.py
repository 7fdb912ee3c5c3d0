"""Responses generated in the background: followed as they grow, finished whether anybody follows them or not."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from appliance.protocols.responses_stream import ResponseStream


@dataclass(slots=True)
class BackgroundResponse:
    """One that is being generated, with any number of followers, who are woken whenever it has grown."""

    stream: ResponseStream
    made: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def grew(self) -> None:
        """Wake the followers."""
        self._news.set()
        self._news = asyncio.Event()

    async def events_after(self, number: int) -> AsyncIterator[bytes]:
        """The events of its stream after the one of this number, as they come, to the last."""
        at = number + 1
        while True:
            news, new = self._news, self.stream.events[at:]
            if new:
                at += len(new)
                yield b"".join(new)
            elif self.made:
                return
            else:
                await news.wait()


@dataclass(slots=True)
class Background:
    """All background responses of a server; `close` must be awaited once no more are begun."""

    _making: dict[str, BackgroundResponse] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def get(self, id: str) -> BackgroundResponse | None:
        """The response with this id; None where it is not being generated."""
        return self._making.get(id)

    def begin(self, id: str, making: BackgroundResponse, work: Coroutine[Any, Any, None]) -> None:
        """Have `work` generate it, which must not raise."""
        self._making[id] = making
        task = asyncio.create_task(self._make(id, work), name=f"response {id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until all are finished."""
        await asyncio.gather(*self._tasks)

    async def _make(self, id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            making = self._making.pop(id)
            making.made = True
            making.grew()
