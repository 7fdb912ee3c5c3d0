"""What people do to engines beside the deployment: it outlives reloads, not this process."""

import asyncio
from collections.abc import Callable

from appliance.control import registry
from appliance.control.registrar import Registrar
from appliance.control.residency import Engine
from appliance.errors import InUse, UnknownModel


class ByHand:
    """`hurry` gives the engine of this number no time to end in."""

    def __init__(self, registrar: Registrar, hurry: Callable[[int], None]) -> None:
        self._registrar, self._hurry = registrar, hurry

    def load(self, name: str) -> None:
        """Have this model in memory, though the deployment may not ask for that; what failed before is tried again.
        It outlives reloads, not this process. Raises UnknownModel.
        """
        self._engine(name)
        self.forgive()
        self._registrar.happen(registry.on_load, name)

    def unload(self, name: str, *, at_once: bool = False) -> tuple[str, ...]:
        """Stop the engine of this model; the next request loads it again. `at_once` also one that is in use: it
        serves nobody new, those who wait are told, and it is killed when those who hold it let go.

        Returns the models it serves. Raises InUse while requests hold it or wait for it, UnknownModel.
        """
        fingerprint, engine = self._engine(name)
        if not at_once and (users := len(engine.leases) + len(engine.waiters)):
            raise InUse(
                f"{name} is used by {users} request{'s' if users > 1 else ''}; try again when they have ended,"
                " or end them with --now (now=1)"
            )
        if at_once:
            self._hurry(engine.number)
        self._registrar.happen(registry.on_unload, fingerprint, at_once)
        return tuple(model for model, served in self._registrar.state.names.items() if served == fingerprint)

    def pin(self, name: str, seconds: float) -> None:
        """Keep this model in memory once it is there, for so long; 0 takes that back, what the deployment pins stays
        pinned. It outlives reloads, not this process. Raises UnknownModel.
        """
        self._engine(name)
        self._registrar.happen(registry.on_pin, name, asyncio.get_running_loop().time() + seconds)

    def _engine(self, name: str) -> tuple[str, Engine]:
        if (fingerprint := self._registrar.state.names.get(name)) is None:
            raise UnknownModel(f"there is no model {name!r} in this deployment", param="model")
        return fingerprint, self._registrar.state.engines[fingerprint]

    def forgive(self) -> None:
        """Try again at the next request what has failed to load or to be fetched."""
        self._registrar.happen(registry.on_forgive)
