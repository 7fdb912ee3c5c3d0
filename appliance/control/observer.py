"""The engines as they were when last looked at: since when each condition holds, and who is told of a change."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.control.conditions import Missing, Standings, changes, follow, missing
from appliance.control.events import Events
from appliance.control.residency import EngineState
from appliance.control.status import ModelStatus
from appliance.control.supervisor import Supervisor
from appliance.control.suspicion import End

PAUSE_SECONDS = 0.05
"""Changes within this time are looked at together."""

_NAMES = {EngineState.COLD: "gone"}


class Observer:
    """`models` and `standings` are as of the last `look`; it looks by itself soon after every change."""

    def __init__(self, supervisor: Supervisor, generation: Callable[[], int], events: Events) -> None:
        self.models: tuple[ModelStatus, ...] = ()
        self.standings: Standings = {}
        self._supervisor = supervisor
        self._generation = generation
        self._events = events
        self._looking: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._engines: dict[str, _Seen] = {}
        supervisor.followers.changed = self._soon
        supervisor.followers.died = self._died
        supervisor.followers.removed = self._removed

    def look(self) -> None:
        """Bring everything up to date, and tell listeners what has changed since the last time."""
        self.models = self._supervisor.status()
        before, self.standings = self.standings, follow(self.standings, self.models, self._generation(), time.time())
        engines = {model.fingerprint: _Seen(model.name, model.state, model.pid) for model in self.models}
        for fingerprint in engines.keys() | self._engines.keys():
            self._tell(self._engines.get(fingerprint, _NOTHING), engines.get(fingerprint, _NOTHING))
        self._engines = engines
        for event, model, reason, message in changes(before, self.standings):
            self._events.publish(event, model=model, reason=reason, message=message)
        self._changed.set()
        self._changed = asyncio.Event()

    async def converged(self, seconds: float) -> tuple[Missing, ...]:
        """Wait until nothing is missing, or only what waiting cannot bring, or the time is over; what is missing."""
        try:
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                while True:
                    self.look()
                    left = missing(self.models)
                    if all(each.final for each in left):
                        return left
                    await self._changed.wait()
        except TimeoutError:
            return missing(self.models)

    def _soon(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._due)

    def _due(self) -> None:
        self._looking = None
        self.look()

    def _died(self, model: str, pid: int, end: End) -> None:
        self._events.publish("engine.died", model=model, pid=pid, exit=end.code, hung=end.hung)

    def _removed(self, source: str, size: int) -> None:
        self._events.publish("model.removed", source=source, bytes=size)

    def _tell(self, before: "_Seen", after: "_Seen") -> None:
        if before.pid is not None and after.pid is not None and before.pid != after.pid:
            # It ended and was started again between two looks.
            self._events.publish("engine.gone", model=after.model, pid=before.pid)
        elif before.state is after.state:
            return
        name = _NAMES.get(after.state, after.state.value)
        self._events.publish(f"engine.{name}", model=after.model or before.model, pid=after.pid or before.pid)


@dataclass(frozen=True, slots=True)
class _Seen:
    model: str = ""
    state: EngineState = EngineState.COLD
    pid: int | None = None


_NOTHING = _Seen()
