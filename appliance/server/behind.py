"""Responses that are made while nobody waits: looked at as they grow, and ended with everything else."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from appliance.protocols.responses_stream import ResponseStream


@dataclass(slots=True)
class Behind:
    """Those of one server; `close` must be awaited once none is begun any more."""

    _making: dict[str, ResponseStream] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def get(self, id: str) -> ResponseStream | None:
        """The response of this id, as far as it is made; None where it is not being made."""
        return self._making.get(id)

    def begin(self, id: str, said: ResponseStream, work: Coroutine[Any, Any, None]) -> None:
        """Have `work` make it, which raises nothing."""
        self._making[id] = said
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
            del self._making[id]
