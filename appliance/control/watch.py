"""When files may have changed: notifications of their directories, and a look at them now and then."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from watchfiles import Change, awatch

from appliance import log
from appliance.config import load
from appliance.control import files

BACKSTOP_SECONDS = 2.0
"""How often the files are read and compared, for file systems that send no notifications."""
LONGEST_QUIET_FACTOR = 3
"""A file that never comes to rest is read after this many quiet times."""
STEP_SECONDS = 0.05
"""Notifications are gathered for this long: a part of the quiet time."""

_log = log.get()


class Watch:
    """Calls `saved` whenever the files `names` may have changed and were quiet for `quiet` seconds since.

    It may be called for nothing. `renew` has to be called when `names` or what their links lead to has changed.
    """

    def __init__(
        self, names: Callable[[], tuple[str, ...]], quiet: Callable[[], float], saved: Callable[[], None]
    ) -> None:
        self._names = names
        self._quiet = quiet
        self._saved = saved
        self.watching: files.Watched | None = None
        """What notifications are set up for."""
        self._renewed = asyncio.Event()
        self._waiting: asyncio.TimerHandle | None = None
        self._since = 0.0

    def renew(self) -> None:
        """Set up the notifications again."""
        self._renewed.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(), name="watch notifications")
            tasks.create_task(self._backstop(), name="watch backstop")

    async def _watch(self) -> None:
        while True:
            # Before the names are read: a change of them meanwhile is not lost.
            self._renewed = asyncio.Event()
            watched = self.watching = await asyncio.to_thread(files.watched, self._names())
            with suppress(OSError, RuntimeError):
                await self._listen(watched)
            if not self._renewed.is_set():
                # Nothing to watch, or no more watches to be had: the backstop serves until something changes.
                _log.warning("config.not_watched", directories=sorted(watched.directories))
                await self._renewed.wait()

    async def _listen(self, watched: files.Watched) -> None:
        def ours(change: Change, path: str) -> bool:
            return watched.concerns(path)

        if not watched.directories:
            return
        # Runs once the watch below is set up: a save just before it was seen by nobody.
        asyncio.get_running_loop().call_soon(self._noticed)
        step = int(STEP_SECONDS * 1000)
        async for _ in awatch(
            *watched.directories, watch_filter=ours, step=step, debounce=4 * step, recursive=False,
            stop_event=self._renewed,
        ):  # fmt: skip
            self._noticed()

    def _noticed(self) -> None:
        """Say it once nothing more has come for the quiet time, or too much for too long."""
        loop, quiet = asyncio.get_running_loop(), self._quiet()
        now = loop.time()
        if self._waiting is None:
            self._since = now
        else:
            self._waiting.cancel()
        at = min(now + quiet - STEP_SECONDS, self._since + quiet * LONGEST_QUIET_FACTOR)
        self._waiting = loop.call_at(max(now, at), self._came_to_rest)

    def _came_to_rest(self) -> None:
        self._waiting = None
        self._saved()

    async def _backstop(self) -> None:
        known: tuple[tuple[str, ...], str] | None = None
        while True:
            names = self._names()
            found = names, await asyncio.to_thread(load.digest, names)
            if known is not None and known != found:
                self._noticed()
            known = found
            await asyncio.sleep(BACKSTOP_SECONDS)
