"""Whether the templates and dialects of models agree, as their engines tell, and what of it got worse."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress

from appliance import log
from appliance.config.deployment import ModelSpec
from appliance.control import registry
from appliance.control.handle import EngineHandle
from appliance.control.run import Run
from appliance.control.speech import Mismatches, Speech, lost
from appliance.control.tasks import Happen, Own
from appliance.errors import EngineDied

_log = log.get()


class Hearing:
    """`runs` are the engines by number, `on_trial` says which must not be worse than what they replace."""

    def __init__(self, own: Own, happen: Happen, runs: Mapping[int, Run], on_trial: Callable[[str], bool]) -> None:
        self._own, self._happen, self._runs, self._on_trial = own, happen, runs, on_trial
        self._heard: dict[str, Mismatches] = {}

    def keep(self, models: Collection[str]) -> None:
        """Forget what was heard of others."""
        self._heard = {name: found for name, found in self._heard.items() if name in models}

    def listen(self, number: int, run: Run, handle: EngineHandle) -> None:
        """Find out about the models of an engine. Nobody waits for that."""
        run.listening = self._own(self._listen(run, handle), f"probe {number}")

    async def worse(self, run: Run, handle: EngineHandle) -> tuple[str, ...]:
        """What its models do not agree about though they did so far. Raises EngineDied."""
        heard = [(model.name, found) async for model, found in self._hear(run, handle)]
        if listening := [other.listening for other in self._runs.values() if other.listening is not None]:
            await asyncio.wait(listening)
        # The deployment may have taken back meanwhile what is tried here.
        on_trial = self._on_trial(run.demand.fingerprint)
        return tuple(why for name, found in heard for why in lost(self._heard.get(name), found) if on_trial)

    async def _listen(self, run: Run, handle: EngineHandle) -> None:
        with suppress(EngineDied):
            async for model, found in self._hear(run, handle):
                self._heard[model.name] = found
                if found:
                    self._happen(registry.on_tick)

    async def _hear(self, run: Run, handle: EngineHandle) -> AsyncIterator[tuple[ModelSpec, Mismatches]]:
        """What of each model does not agree, asked once for all that speak alike. Raises EngineDied."""
        for model in run.demand.models:
            speech = Speech.of(model)
            if speech not in run.spoken:
                run.spoken[speech] = None
                found = run.spoken[speech] = await handle.probe(speech)
                for message in found.values():
                    _log.warning("model.dialect_mismatch", model=model.name, reason=message)
            if (known := run.spoken[speech]) is not None:
                yield model, known
