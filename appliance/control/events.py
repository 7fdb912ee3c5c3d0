"""What happens, told to whoever listens now: one queue per listener, bounded, the oldest dropped first."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Event = dict[str, Any]
"""`event` is a dotted name, `time` Unix seconds; the rest depends on the event."""

LONGEST_QUEUE = 1000
REMEMBERED = 20


class Events:
    """`publish` never waits; a listener that does not keep up is told how many events it lost. `recent` are the
    latest ones, newest last.
    """

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self.recent: deque[Event] = deque(maxlen=REMEMBERED)

    def publish(self, event: str, **fields: Any) -> None:
        """Tell every listener."""
        told = {"event": event, "time": time.time(), **fields}
        self.recent.append(told)
        for listener in self._listeners:
            listener.put(told)

    @contextmanager
    def listening(self) -> Iterator["Listener"]:
        """Events published within the block, in order."""
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)


class Listener:
    """An endless iterator of events."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(LONGEST_QUEUE)
        self._lost = 0

    def put(self, event: Event) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self._lost += 1
        self._queue.put_nowait(event)

    async def next(self) -> Event:
        """The next event, waiting for it."""
        if self._lost:
            lost, self._lost = self._lost, 0
            return {"event": "events.lost", "time": time.time(), "count": lost}
        return await self._queue.get()
