"""The generations that are running, and how the server ends them when it has to end itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from appliance.errors import ApplianceError


class InFlight:
    """Who is inside `one`; a drain waits for them and, in the end, tells them to stop."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Timeout, ApplianceError | None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._running)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A generation runs in this block. Raises what `end` was given, wherever the block is waiting."""
        cut = asyncio.timeout(None)
        self._running[cut] = None
        self._empty.clear()
        try:
            async with cut:
                yield
        except TimeoutError:
            if (error := self._running[cut]) is None:
                raise
            raise error from None
        finally:
            del self._running[cut]
            if not self._running:
                self._empty.set()

    def end(self, error: ApplianceError) -> None:
        """End all of them with this error."""
        for cut in self._running:
            self._running[cut] = error
            cut.reschedule(0)

    async def emptied(self) -> None:
        """Wait until none is left."""
        await self._empty.wait()
