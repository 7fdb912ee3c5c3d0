"""Engines without weights: they count and render the prompts of models that are not in memory, and end when idle."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from appliance import log
from appliance.control.demand import Demand
from appliance.control.footprint import BASE_BYTES
from appliance.control.handle import EngineHandle
from appliance.control.machine import Machine
from appliance.control.tasks import Own
from appliance.control.vigil import attended, watch
from appliance.control.watchdog import FLOOR_SECONDS, SLOWER, Bound
from appliance.errors import LoadFailed, Unavailable

IDLE_SECONDS = 60.0
START_SECONDS = 120.0
STOP_GRACE_SECONDS = 5.0
MOST = 4
"""Beyond this the longest unused one ends."""

_log = log.get()


@dataclass(eq=False, slots=True)
class _Reader:
    """One process, expected to take so many bytes. `unneeded` asks it to end."""

    ready: asyncio.Future[EngineHandle]
    bytes: int
    users: int = 0
    unneeded: asyncio.Event = field(default_factory=asyncio.Event)
    alarm: asyncio.TimerHandle | None = None


class Readers:
    """At most one per model's files. `close` them in the end; whoever owns their tasks awaits them.

    `told` what they take together, in bytes, whenever that has changed. One that answers nothing for as long as
    `bound` allows is killed.
    """

    def __init__(
        self, machine: Machine, own: Own, told: Callable[[int], None], idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._machine, self._own, self._told, self._idle_seconds = machine, own, told, idle_seconds
        # They take no steps, and before its first an engine has longer.
        self.bound = Bound(FLOOR_SECONDS / SLOWER)
        self._readers: dict[str, _Reader] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def bytes(self) -> int:
        """What they are expected to take together: what a process without weights does."""
        return sum(reader.bytes for reader in self._readers.values())

    def release(self, fingerprint: str) -> None:
        """End that of this model once nobody uses it: an engine that can read is being loaded."""
        if (reader := self._readers.get(fingerprint)) is not None and not reader.users:
            reader.unneeded.set()

    @asynccontextmanager
    async def hold(self, demand: Demand) -> AsyncIterator[EngineHandle]:
        """A reader for this engine's model, whose files are here; started where there is none. Raises LoadFailed,
        Unavailable while closing.
        """
        if self._closed:
            raise Unavailable("the appliance is shutting down", retry_after=5)
        reader = self._readers.get(demand.fingerprint) or self._start(demand)
        reader.users += 1
        if reader.alarm is not None:
            reader.alarm.cancel()
        try:
            yield await asyncio.shield(reader.ready)
        finally:
            reader.users -= 1
            if not reader.users:
                loop = asyncio.get_running_loop()
                reader.alarm = loop.call_later(self._idle_seconds, reader.unneeded.set)

    def close(self) -> None:
        """End all of them, and start no more."""
        self._closed = True
        for reader in self._readers.values():
            reader.unneeded.set()

    def _start(self, demand: Demand) -> _Reader:
        idle = [reader for reader in self._readers.values() if not reader.users]
        if len(self._readers) >= MOST and idle:
            idle[0].unneeded.set()
        size = BASE_BYTES["fake" if demand.first.source.kind == "fake" else "mlx"]
        reader = self._readers[demand.fingerprint] = _Reader(asyncio.get_running_loop().create_future(), size)
        self._told(self.bytes)
        self._own(self._run(demand, reader), f"reader {demand.first.name}")
        return reader

    async def _run(self, demand: Demand, reader: _Reader) -> None:
        try:
            launch = self._machine.launch(demand, demand.settings(0))
            spec = msgspec.structs.replace(launch.spec, tokenizer_only=True)
            settings = msgspec.structs.replace(launch.settings, disk=None)
            handle = await EngineHandle.start(
                replace(launch, spec=spec, settings=settings), lambda: self._forget(reader)
            )
            try:
                async with attended(handle, Bound()):
                    await handle.ready(START_SECONDS)
                _log.info("reader.ready", model=demand.first.name, pid=handle.pid)
                reader.ready.set_result(handle)
                await _first(reader.unneeded.wait(), watch(handle, self.bound, demand.stall_target))
            finally:
                self._forget(reader)
                code = await handle.stop(STOP_GRACE_SECONDS)
                _log.info("reader.gone", model=demand.first.name, pid=handle.pid, exit=code)
        except LoadFailed as error:
            self._fail(reader, error)
        except Exception:  # noqa: BLE001 - a task's edge: a bug in one reader must not end the engines
            _log.exception("reader.bug", model=demand.first.name)
            self._fail(reader, LoadFailed(f"the tokenizer of {demand.first.name} could not be run"))

    def _fail(self, reader: _Reader, error: LoadFailed) -> None:
        self._forget(reader)
        if not reader.ready.done():
            reader.ready.set_exception(error)
            reader.ready.exception()  # somebody may have stopped waiting

    def _forget(self, reader: _Reader) -> None:
        """Nobody new gets this one."""
        if reader.alarm is not None:
            reader.alarm.cancel()
        kept = {of: each for of, each in self._readers.items() if each is not reader}
        if len(kept) < len(self._readers):
            self._readers = kept
            self._told(self.bytes)


async def _first(*events: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.create_task(event) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
