"""Responses that are made while nobody waits: looked at as they grow, and ended with everything else."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from appliance.protocols.responses_stream import ResponseStream


@dataclass(slots=True)
class Making:
    """One that is being made: who makes it says so each time it has grown, and any number follow."""

    said: ResponseStream
    made: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def grew(self) -> None:
        """Wake those that follow."""
        self._news.set()
        self._news = asyncio.Event()

    async def events_after(self, number: int) -> AsyncIterator[bytes]:
        """The events of its stream behind the one of this number, as they come, to the last."""
        at = number + 1
        while True:
            news, new = self._news, self.said.events[at:]
            if new:
                at += len(new)
                yield b"".join(new)
            elif self.made:
                return
            else:
                await news.wait()


@dataclass(slots=True)
class Behind:
    """Those of one server; `close` must be awaited once none is begun any more."""

    _making: dict[str, Making] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def get(self, id: str) -> Making | None:
        """The response of this id, as far as it is made; None where it is not being made."""
        return self._making.get(id)

    def begin(self, id: str, making: Making, work: Coroutine[Any, Any, None]) -> None:
        """Have `work` make it, which raises nothing."""
        self._making[id] = making
        task = asyncio.create_task(self._make(id, work), name=f"response {id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for those that are on their way out."""
        await asyncio.gather(*self._tasks)

    async def _make(self, id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            making = self._making.pop(id)
            making.made = True
            making.grew()
