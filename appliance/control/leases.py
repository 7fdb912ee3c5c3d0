"""How a request gets its engine and lets go of it: it waits until the registry answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from appliance.config.deployment import ModelSpec
from appliance.control import registry
from appliance.control.lease import Lease
from appliance.control.registrar import Registrar
from appliance.control.residency import Grant, Reject, Waiter
from appliance.control.run import Run
from appliance.errors import Unavailable

FETCH_RETRY_SECONDS = 15.0


class Leases:
    """`runs` are the engines by number, `progress` tells how far the download for one is, by fingerprint; a request
    waits `fetch_patience` seconds for it before it is told.
    """

    def __init__(
        self,
        registrar: Registrar,
        runs: Mapping[int, Run],
        next_id: Callable[[], int],
        progress: Callable[[str], tuple[str, int, int] | None],
        fetch_patience: float,
    ) -> None:
        self._registrar, self._runs, self._next_id = registrar, runs, next_id
        self._progress, self._fetch_patience = progress, fetch_patience
        self._waiting: dict[int, asyncio.Future[int]] = {}

    @asynccontextmanager
    async def acquire(
        self,
        model: ModelSpec,
        *,
        alone: bool = False,
        resumed: bool = False,
        keep: float | None = None,
        patient: bool = False,
        hasty: bool = False,
    ) -> AsyncIterator[Lease]:
        """Hold the engine of `model`, loading it first where needed; waiting is not bounded here. `alone` without
        company until `clear`ed; `resumed` requests wait until a load that failed for a passing reason is tried again,
        all who wait do so where engines die in their load, unless they are `hasty`.
        Afterwards the model stays for `keep` seconds if nobody else comes, without it for `idle_unload`.

        Raises UnknownModel if it is not in the deployment any more, Unavailable while closing, where it cannot
        fit in memory or, for those who are not `patient`, where its files take more than a moment to be fetched;
        LoadFailed or SourceError with the reason it cannot be had.
        """
        asked = _now()
        waiter = self._next_id()
        run: Run | None = None
        served = False
        try:
            while run is None:  # it may end between the grant and our turn
                answer = self._waiting[waiter] = asyncio.get_running_loop().create_future()
                asks = Waiter(waiter, model.name, alone, resumed, hasty, keep)
                self._registrar.happen(registry.on_acquire, asks)
                number = await (answer if patient or resumed else self._or_told(answer, model.name))
                run = self._runs.get(number)
            yield run.lease(waiter, model, asked, _now())
            served = True
        finally:
            self._waiting.pop(waiter, None)
            if run is not None:
                run.leave(waiter)
            # A request cancelled while waiting may have been granted a moment ago: both are harmless if not so.
            self._registrar.happen(registry.on_leave, waiter)
            self._registrar.happen(registry.on_release, waiter, served)

    def clear(self, lease: Lease) -> bool:
        """Let others join a lease that is held alone; whether another one waits to be alone there."""
        self._registrar.happen(registry.on_cleared, lease.id)
        state = self._registrar.state
        engine = state.engines.get(state.names.get(lease.model.name, ""))
        return engine is not None and any(waiter.alone for waiter in engine.waiters)

    def answer(self, told: Grant | Reject) -> None:
        """What the registry says to somebody, who may have left."""
        if (answer := self._waiting.get(told.waiter)) is None or answer.done():
            return
        match told:
            case Grant(waiter, number):
                self._runs[number].join(waiter)
                answer.set_result(number)
            case Reject(_, error):
                answer.set_exception(error)

    async def _or_told(self, answer: asyncio.Future[int], model: str) -> int:
        """The answer, unless a download turns out to take long: then how far that is. Raises Unavailable."""
        while not (await asyncio.wait([answer], timeout=self._fetch_patience))[0]:
            if (progress := self._progress(self._registrar.state.names.get(model, ""))) is not None:
                phase, done, total = progress
                far = f"{phase} {done / total:.0%}" if total else phase
                raise Unavailable(f"{model} is being fetched: {far}", retry_after=FETCH_RETRY_SECONDS)
        return answer.result()


def _now() -> float:
    return asyncio.get_running_loop().time()
