"""Holds the registry of engines: told of events, it has the effects performed."""

import asyncio
from collections.abc import Callable

from appliance.control import registry
from appliance.control.followers import Followers
from appliance.control.residency import Act, Registry, Transition, WakeAt


class Registrar:
    """The only writer of `state`. `perform` does what was decided; `followers` are told after each event."""

    def __init__(self, perform: Callable[[Act], None], followers: Followers) -> None:
        self.state = Registry()
        self._perform, self._followers = perform, followers
        self._alarm: asyncio.TimerHandle | None = None

    def happen(self, event: Callable[..., Transition], *what: object) -> None:
        """One of the registry's events, at this moment."""
        self.state, effects = event(self.state, *what, now=asyncio.get_running_loop().time())
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wake(effect.at)
            else:
                self._perform(effect)
        self._followers.changed()

    def close(self) -> None:
        """Let time pass without telling the registry."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _wake(self, at: float) -> None:
        self.close()
        self._alarm = asyncio.get_running_loop().call_at(at, self.happen, registry.on_tick)
