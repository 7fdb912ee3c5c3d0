"""The owner of all engines: it applies deployments, and has performed what the registry of engines decides.

async with Supervisor(store, environ=environ) as supervisor:
    await supervisor.apply(deployment)
    async with supervisor.acquire(model) as lease:
        stream = lease.handle.generate(submission)
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any, Self

from appliance.config.deployment import Deployment, ModelSpec
from appliance.control import demand, registry
from appliance.control.by_hand import ByHand
from appliance.control.demand import Demand
from appliance.control.followers import Followers
from appliance.control.handle import EngineHandle
from appliance.control.leases import Leases
from appliance.control.machine import Machine
from appliance.control.processes import Processes
from appliance.control.readers import IDLE_SECONDS, Readers
from appliance.control.registrar import Registrar
from appliance.control.residency import Act, EngineState, Fetch, Grant, Reject, Share, Spawn, Stop
from appliance.control.sizes import Sizes
from appliance.control.spare import SpareStatus
from appliance.control.status import ModelStatus, Observed, describe
from appliance.control.supply import Prepared, Supply
from appliance.control.watchdog import Bound
from appliance.models.store import Store

HANG = Bound()
FETCH_PATIENCE_SECONDS = 10.0


class Supervisor:
    """See the module. All methods belong to one event loop.

    `environ` is what engines and downloads get, `engine_log` the format and level of what engines log before they are
    told; an engine that makes no progress within `bound` is killed. `sizes` are what engines took before, and learn
    what they take.
    `followers` are told what happens, `counts` holds how often it happened, by kind (loads, unloads, deaths,
    load_failures) and model. `acquire` and `clear` are those of `Leases`, `load`, `unload`, `pin` and `forgive` those
    of `ByHand`.
    """

    def __init__(
        self,
        store: Store,
        *,
        environ: Mapping[str, str],
        engine_log: tuple[str, str] = ("console", "info"),
        bound: Bound = HANG,
        sizes: Sizes | None = None,
        reader_idle: float = IDLE_SECONDS,
        fetch_patience: float = FETCH_PATIENCE_SECONDS,
    ) -> None:
        self.followers = Followers()
        self._deployment: Deployment | None = None
        self._demands: Mapping[str, Demand] = {}
        self._ids = itertools.count(1)
        self._tasks = asyncio.TaskGroup()
        machine, sizes = Machine.of_this(environ, engine_log), Sizes() if sizes is None else sizes
        self._registrar = Registrar(self._perform, self.followers)
        self._happen = self._registrar.happen
        self._supply = Supply(
            store, machine, sizes, self._own, self._happen,
            demands=lambda: self._demands, commit=self.commit, followers=self.followers,
        )  # fmt: skip
        self._processes = Processes(
            machine, self._own, self._happen,
            bound=bound, sizes=sizes, on_trial=self._on_trial, followers=self.followers, next_id=self.next_id,
        )  # fmt: skip
        self.counts = self._processes.counts
        self.readers = Readers(machine, self._own, lambda size: self._happen(registry.on_aside, size), reader_idle)
        self._leases = Leases(
            self._registrar, self._processes.runs, self.next_id, self._supply.progress, fetch_patience
        )
        self.acquire, self.clear = self._leases.acquire, self._leases.clear
        by_hand = ByHand(self._registrar, self._processes.hurry)
        self.load, self.unload, self.pin, self.forgive = by_hand.load, by_hand.unload, by_hand.pin, by_hand.forgive

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._measuring = self._own(self._processes.measure_again(), "measure")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close(0)
        finally:
            self._measuring.cancel()
            # The body's error is its own: the group would wrap it, and has nothing left to cancel.
            await self._tasks.__aexit__(None, None, None)

    # ---- the deployment
    async def apply(self, deployment: Deployment) -> None:
        """Serve `deployment` from now on. Engines it does not change keep running; others converge behind."""
        self.commit(await self.prepare(deployment))

    async def prepare(self, deployment: Deployment) -> Prepared:
        """Look up, off the loop, what `commit` needs."""
        return await self._supply.prepare(deployment)

    def commit(self, prepared: Prepared) -> None:
        """Switch to a prepared deployment, at once and as a whole."""
        self._deployment, self._demands = prepared.deployment, {**self._demands, **prepared.demands}
        self._supply.follow(prepared.deployment)
        self._processes.follow(self._demands)
        wants = {fingerprint: each.want for fingerprint, each in prepared.demands.items()}
        names, terms = demand.names(prepared.deployment), demand.terms(prepared.deployment)
        self._happen(registry.on_apply, wants, names, terms)
        state = self._registrar.state
        kept = {*prepared.demands, *state.engines, *(want.fingerprint for want in state.former.values())}
        self._demands = {fingerprint: each for fingerprint, each in self._demands.items() if fingerprint in kept}
        self._processes.configure()
        self._processes.keep_spare(demand.spare(prepared.deployment), prepared.deployment.engine.blas)

    # ---- requests
    def next_id(self) -> int:
        """A number unique for the life of this supervisor, as submissions need."""
        return next(self._ids)

    @asynccontextmanager
    async def reading(self, model: ModelSpec) -> AsyncIterator[EngineHandle]:
        """An engine that can read prompts of `model`: its own where that is loaded, else one without weights, so that
        nothing has to make room. Raises as `acquire`.
        """
        fingerprint = self._registrar.state.names.get(model.name, "")
        engine, wanted = self._registrar.state.engines.get(fingerprint), self._demands.get(fingerprint)
        cold = engine is not None and engine.state is not EngineState.READY
        if cold and wanted is not None and wanted.place.path is not None:
            async with self.readers.hold(wanted) as handle:
                yield handle
        else:
            async with self.acquire(model) as lease:
                yield lease.handle

    # ---- what is the case
    def at_rest(self, name: str) -> bool:
        """Whether this model is not in memory and nobody waits for it, so that there is nothing to unload."""
        engine = self._registrar.state.engines.get(self._registrar.state.names.get(name, ""))
        return engine is not None and engine.state is EngineState.COLD and not engine.waiters and not engine.wanted

    def status(self) -> tuple[ModelStatus, ...]:
        """Every model of the deployment and the engines on their way out, for people and metrics."""
        now = asyncio.get_running_loop().time()
        observed = {fingerprint: self._observe(fingerprint) for fingerprint in self._registrar.state.engines}
        return describe(self._registrar.state, self._deployment, observed, now)

    def spare(self) -> SpareStatus | None:
        """The blank engine process; None where the deployment wants none."""
        return self._processes.spare.status()

    def readiness(self) -> tuple[str, ...]:
        """Why not to send requests here yet, one reason each; empty when ready."""
        if self._registrar.state.closing:
            return ("the appliance is shutting down",)
        if self._deployment is None:
            return ("no deployment is applied yet",)
        waiting = (
            e for e in self._registrar.state.engines.values() if e.want.startup and e.wanted and e.failure is None
        )
        return tuple(f"{engine.want.model} is loading" for engine in waiting)

    def _observe(self, fingerprint: str) -> Observed:
        run = self._processes.runs.get(self._registrar.state.engines[fingerprint].number)
        download = self._supply.progress(fingerprint)
        return run.observed(download) if run else Observed(download=download)

    # ---- the end
    async def close(self, drain_timeout: float) -> None:
        """Take no more requests, let running ones finish for `drain_timeout` seconds, then stop every engine."""
        self._happen(registry.on_close)
        self._supply.close()
        self._processes.keep_spare(None, "off")
        self.readers.close()
        try:
            async with asyncio.timeout(drain_timeout):
                await self._processes.empty.wait()
        except TimeoutError:
            await self._processes.stop_all()
        self._registrar.close()

    # ---- what the registry decides
    def _perform(self, act: Act) -> None:
        match act:
            case Grant() | Reject():
                self._leases.answer(act)
            case Spawn(fingerprint, number):
                self._supply.use(self._demands[fingerprint].first)
                self.readers.release(fingerprint)
                self._processes.start(number, self._demands[fingerprint])
            case Stop(number):
                self._processes.stop(number)
            case Fetch(fingerprint):
                self._supply.fetch(self._demands[fingerprint].first, fingerprint)
            case Share(size):
                self._processes.share(size)

    def _on_trial(self, fingerprint: str) -> bool:
        return fingerprint in self._registrar.state.former

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task of the supervisor's own: it must not log under the id of the request that happened to cause it."""
        return self._tasks.create_task(work, name=name, context=Context())
