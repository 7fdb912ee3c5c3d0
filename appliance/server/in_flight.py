"""The generations that are running: who they are, and how they are ended from outside."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from appliance.errors import ApplianceError


@dataclass(slots=True)
class Entry:
    """One running request. `id` is the request's, `answer` its answer's; `started` in Unix seconds.

    `model` is the one that serves it, `asked_model` the name it was asked for by, `key` the name of the key it came
    with, `rank` that key's: higher goes first. Nobody waits for what is done in the `background`.
    """

    id: str
    answer: str
    endpoint: str
    model: str
    asked_model: str
    started: float
    stream: bool
    prompt_tokens: int | None = None
    """None while it waits for a model or a row."""
    key: str | None = None
    background: bool = False
    rank: int = 0
    rows: int = 1
    """How many rows its answers take."""
    size: int = 0
    """Bytes of its body."""
    leaves: bool = False
    """It was told to end."""

    @property
    def waits(self) -> bool:
        """Whether it takes a place among those that wait."""
        return not (self.background or self.leaves) and self.prompt_tokens is None

    def is_for(self, key: str | None) -> bool:
        """Whether the holder of a key may know of it; who needs none is on this machine, and may."""
        return key is None or key == self.key


class InFlight:
    """Who is inside `one`; a drain waits for them and, in the end, tells them to stop."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Timeout, tuple[Entry, ApplianceError | None]] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Entry]:
        """Those that run, oldest first."""
        return iter([entry for entry, _ in self._running.values()])

    @asynccontextmanager
    async def one(self, entry: Entry) -> AsyncIterator[None]:
        """A generation runs in this block. Raises what `end` was given, wherever the block is waiting."""
        cut = asyncio.timeout(None)
        self._running[cut] = entry, None
        self._empty.clear()
        try:
            async with cut:
                yield
        except TimeoutError:
            if (error := self._running[cut][1]) is None:
                raise
            raise error from None
        finally:
            del self._running[cut]
            if not self._running:
                self._empty.set()

    def end(self, error: ApplianceError, id: str | None = None, key: str | None = None) -> int:
        """End with this error those whose request or answer has this id, without one all, that are for the holder of
        this key; how many they were.
        """
        named = ((cut, entry) for cut, (entry, _) in self._running.items() if id in (None, entry.id, entry.answer))
        return self._cut([cut for cut, entry in named if entry.is_for(key)], error)

    def end_of(self, models: Collection[str], error: ApplianceError) -> int:
        """End with this error those that one of these models serves; how many they were."""
        return self._cut([cut for cut, (entry, _) in self._running.items() if entry.model in models], error)

    def displace(self, entry: Entry, error: ApplianceError) -> None:
        """End this one with this error."""
        self._cut([cut for cut, (each, _) in self._running.items() if each is entry], error)

    def _cut(self, cuts: list[asyncio.Timeout], error: ApplianceError) -> int:
        for cut in cuts:
            entry, told = self._running[cut]
            # Who was told already is on the way out.
            if told is None:
                self._running[cut] = entry, error
                entry.leaves = True
                cut.reschedule(0)
        return len(cuts)

    async def emptied(self) -> None:
        """Wait until none is left."""
        await self._empty.wait()
