"""The owner of all engines: it alone holds the registry, and performs what the registry decides.

async with Supervisor(store, environ=environ) as supervisor:
    await supervisor.apply(deployment)
    async with supervisor.acquire(model) as lease:
        stream = lease.handle.generate(submission)
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from appliance import log
from appliance.config.deployment import Deployment, ModelSpec, Source
from appliance.control import demand, registry
from appliance.control.demand import Demand
from appliance.control.downloads import Downloads
from appliance.control.fetch import FROM_AFAR
from appliance.control.handle import EngineHandle
from appliance.control.lease import Lease
from appliance.control.machine import Machine
from appliance.control.processes import Processes
from appliance.control.readers import IDLE_SECONDS, Readers
from appliance.control.residency import (
    Effect,
    Engine,
    EngineState,
    Fetch,
    Grant,
    Registry,
    Reject,
    Share,
    Spawn,
    Stop,
    Transition,
    Waiter,
    WakeAt,
)
from appliance.control.run import Run
from appliance.control.sizes import Sizes
from appliance.control.spare import SpareStatus
from appliance.control.status import ModelStatus, Observed, describe
from appliance.control.survey import survey
from appliance.control.suspicion import End
from appliance.control.watchdog import Bound
from appliance.errors import InUse, Unavailable, UnknownModel
from appliance.models import fetched
from appliance.models.store import Store

_log = log.get()

HANG = Bound()
FETCH_PATIENCE_SECONDS = 10.0
FETCH_RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A deployment with what had to be looked up on disk for it."""

    deployment: Deployment
    demands: Mapping[str, Demand]


class Supervisor:
    """See the module. All methods belong to one event loop.

    `environ` is what engines and downloads get, `engine_log` the format and level of what engines log before they are
    told; an engine that makes no progress within `bound` is killed. `sizes` are what engines took before, and learn
    what they take.
    `on_fetched` is awaited after a download, so that whoever resolves deployments can look at the new files;
    `on_change` is called whenever something about an engine may have changed, `on_death` with model, pid and end of
    an engine that ended by itself, `on_removed` with source and bytes of a fetched model that made room.
    `counts` holds how often something happened, by kind (loads, unloads, deaths, load_failures) and model.
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
        self.on_fetched: Callable[[], Awaitable[object]] = _nothing
        self.on_change: Callable[[], None] = _nobody
        self.on_death: Callable[[str, int, End], None] = _nobody
        self.on_removed: Callable[[str, int], None] = _nobody
        self._store = store
        self._machine = Machine.of_this(environ, engine_log)
        self._sizes = Sizes() if sizes is None else sizes
        self._fetch_patience = fetch_patience
        self._state = Registry()
        self._deployment: Deployment | None = None
        self._demands: Mapping[str, Demand] = {}
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._ids = itertools.count(1)
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks = asyncio.TaskGroup()
        self._downloads = Downloads(self._to_fetch_to, self._machine, self._own, self._happen, self._bring_in)
        self._processes = Processes(
            self._machine,
            self._own,
            self._happen,
            bound=bound,
            sizes=self._sizes,
            on_trial=lambda fingerprint: fingerprint in self._state.former,
            on_death=lambda *told: self.on_death(*told),
            next_id=self.next_id,
        )
        self.counts = self._processes.counts
        self.readers = Readers(
            self._machine, self._own, lambda size: self._happen(registry.on_aside, size), reader_idle
        )

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
        places = await asyncio.to_thread(survey, deployment, self._store_of(deployment), self._machine, self._sizes)
        return Prepared(deployment, demand.demands(deployment, places))

    def commit(self, prepared: Prepared) -> None:
        """Switch to a prepared deployment, at once and as a whole."""
        self._deployment, self._demands = prepared.deployment, {**self._demands, **prepared.demands}
        self._downloads.keep({model.source for model in prepared.deployment.models.values()})
        self._processes.follow(self._demands)
        wants = {fingerprint: each.want for fingerprint, each in prepared.demands.items()}
        names, terms = demand.names(prepared.deployment), demand.terms(prepared.deployment)
        self._happen(registry.on_apply, wants, names, terms)
        kept = {*prepared.demands, *self._state.engines, *(want.fingerprint for want in self._state.former.values())}
        self._demands = {fingerprint: each for fingerprint, each in self._demands.items() if fingerprint in kept}
        self._processes.configure()
        self._processes.keep_spare(demand.spare(prepared.deployment), prepared.deployment.engine.blas)
        if (limit := prepared.deployment.storage.max_bytes) is not None:
            self._own(self._trim(prepared.deployment, limit), "trim")

    def load(self, name: str) -> None:
        """Have this model in memory, though the deployment may not ask for that; what failed before is tried again.
        It outlives reloads, not this process. Raises UnknownModel.
        """
        self._engine(name)
        self.forgive()
        self._happen(registry.on_load, name)

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
            self._processes.hurry(engine.number)
        self._happen(registry.on_unload, fingerprint, at_once)
        return tuple(model for model, served in self._state.names.items() if served == fingerprint)

    def pin(self, name: str, seconds: float) -> None:
        """Keep this model in memory once it is there, for so long; 0 takes that back, what the deployment pins stays
        pinned. It outlives reloads, not this process. Raises UnknownModel.
        """
        self._engine(name)
        self._happen(registry.on_pin, name, self._now() + seconds)

    def _engine(self, name: str) -> tuple[str, Engine]:
        if (fingerprint := self._state.names.get(name)) is None:
            raise UnknownModel(f"there is no model {name!r} in this deployment", param="model")
        return fingerprint, self._state.engines[fingerprint]

    def forgive(self) -> None:
        """Try again at the next request what has failed to load or to be fetched."""
        self._happen(registry.on_forgive)

    # ---- requests
    def next_id(self) -> int:
        """A number unique for the life of this supervisor, as submissions need."""
        return next(self._ids)

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
        asked = self._now()
        waiter = self.next_id()
        run: Run | None = None
        served = False
        try:
            while run is None:  # it may end between the grant and our turn
                answer = self._waiting[waiter] = asyncio.get_running_loop().create_future()
                self._happen(registry.on_acquire, Waiter(waiter, model.name, alone, resumed, hasty, keep))
                number = await (answer if patient or resumed else self._or_told(answer, model.name))
                run = self._processes.runs.get(number)
            yield run.lease(waiter, model, asked, self._now())
            served = True
        finally:
            self._waiting.pop(waiter, None)
            if run is not None:
                run.leave(waiter)
            # A request cancelled while waiting may have been granted a moment ago: both are harmless if not so.
            self._happen(registry.on_leave, waiter)
            self._happen(registry.on_release, waiter, served)

    async def _or_told(self, answer: asyncio.Future[int], model: str) -> int:
        """The answer, unless a download turns out to take long: then how far that is. Raises Unavailable."""
        while not (await asyncio.wait([answer], timeout=self._fetch_patience))[0]:
            if (progress := self._downloads.progress(self._state.names.get(model, ""))) is not None:
                phase, done, total = progress
                far = f"{phase} {done / total:.0%}" if total else phase
                raise Unavailable(f"{model} is being fetched: {far}", retry_after=FETCH_RETRY_SECONDS)
        return answer.result()

    @asynccontextmanager
    async def reading(self, model: ModelSpec) -> AsyncIterator[EngineHandle]:
        """An engine that can read prompts of `model`: its own where that is loaded, else one without weights, so that
        nothing has to make room. Raises as `acquire`.
        """
        fingerprint = self._state.names.get(model.name, "")
        engine, wanted = self._state.engines.get(fingerprint), self._demands.get(fingerprint)
        cold = engine is not None and engine.state is not EngineState.READY
        if cold and wanted is not None and wanted.place.path is not None:
            async with self.readers.hold(wanted) as handle:
                yield handle
        else:
            async with self.acquire(model) as lease:
                yield lease.handle

    def clear(self, lease: Lease) -> bool:
        """Let others join a lease that is held alone; whether another one waits to be alone there."""
        self._happen(registry.on_cleared, lease.id)
        engine = self._state.engines.get(self._state.names.get(lease.model.name, ""))
        return engine is not None and any(waiter.alone for waiter in engine.waiters)

    # ---- what is the case
    def at_rest(self, name: str) -> bool:
        """Whether this model is not in memory and nobody waits for it, so that there is nothing to unload."""
        engine = self._state.engines.get(self._state.names.get(name, ""))
        return engine is not None and engine.state is EngineState.COLD and not engine.waiters and not engine.wanted

    def status(self) -> tuple[ModelStatus, ...]:
        """Every model of the deployment and the engines on their way out, for people and metrics."""
        now = self._now()
        observed = {fingerprint: self._observe(fingerprint) for fingerprint in self._state.engines}
        return describe(self._state, self._deployment, observed, now)

    def spare(self) -> SpareStatus | None:
        """The blank engine process; None where the deployment wants none."""
        return self._processes.spare.status()

    def readiness(self) -> tuple[str, ...]:
        """Why not to send requests here yet, one reason each; empty when ready."""
        if self._state.closing:
            return ("the appliance is shutting down",)
        if self._deployment is None:
            return ("no deployment is applied yet",)
        waiting = (e for e in self._state.engines.values() if e.want.startup and e.wanted and e.failure is None)
        return tuple(f"{engine.want.model} is loading" for engine in waiting)

    def _observe(self, fingerprint: str) -> Observed:
        number = self._state.engines[fingerprint].number
        run = self._processes.runs.get(number)
        handle = run.handle if run else None
        return Observed(
            pid=handle.pid if handle else None,
            load=handle.progress if handle and handle.info is None else None,
            download=self._downloads.progress(fingerprint),
            info=handle.info if handle else None,
            taken=run.taken if run else None,
            mismatches=run.mismatches() if run else {},
        )

    # ---- the end
    async def close(self, drain_timeout: float) -> None:
        """Take no more requests, let running ones finish for `drain_timeout` seconds, then stop every engine."""
        self._happen(registry.on_close)
        self._downloads.keep(())
        self._processes.keep_spare(None, "off")
        self.readers.close()
        try:
            async with asyncio.timeout(drain_timeout):
                await self._processes.empty.wait()
        except TimeoutError:
            await self._processes.stop_all()
        if self._alarm is not None:
            self._alarm.cancel()

    # ---- the registry: events in, effects out
    def _happen(self, event: Callable[..., Transition], *what: object) -> None:
        self._state, effects = event(self._state, *what, now=self._now())
        for effect in effects:
            self._perform(effect)
        self.on_change()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Grant(waiter, number):
                if (answer := self._waiting.get(waiter)) is not None and not answer.done():
                    self._processes.runs[number].join(waiter)
                    answer.set_result(number)
            case Reject(waiter, error):
                if (answer := self._waiting.get(waiter)) is not None and not answer.done():
                    answer.set_exception(error)
            case Spawn(fingerprint, number):
                self._own(self._touch(self._demands[fingerprint].first), "touch")
                self.readers.release(fingerprint)
                self._processes.start(number, self._demands[fingerprint])
            case Stop(number):
                self._processes.stop(number)
            case Fetch(fingerprint):
                self._downloads.start(self._demands[fingerprint].first.source, fingerprint)
            case Share(size):
                self._processes.share(size)
            case WakeAt(at):
                if self._alarm is not None:
                    self._alarm.cancel()
                loop = asyncio.get_running_loop()
                self._alarm = loop.call_at(at, self._happen, registry.on_tick)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task of the supervisor's own: it must not log under the id of the request that happened to cause it."""
        return self._tasks.create_task(work, name=name, context=Context())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # ---- files
    def _store_of(self, deployment: Deployment) -> Store:
        return self._store.within(deployment.storage)

    def _to_fetch_to(self, source: Source) -> Store | None:
        """None where it may not be fetched."""
        deployment = self._deployment
        if deployment is None or (deployment.storage.offline and source.kind in FROM_AFAR):
            return None
        return self._store_of(deployment)

    async def _touch(self, model: ModelSpec) -> None:
        deployment = self._deployment
        for source in demand.sources(model) if deployment is not None else ():
            await asyncio.to_thread(fetched.touch, source, self._store_of(deployment))

    async def _trim(self, deployment: Deployment, limit: int) -> None:
        """Remove fetched models nobody names where they take more than so many bytes; none that has an engine."""
        needed = {source for model in deployment.models.values() for source in demand.sources(model)}
        needed |= {source for each in self._demands.values() for source in demand.sources(each.first)}
        for model in await asyncio.to_thread(fetched.trim, self._store_of(deployment), limit, needed):
            _log.info("model.removed", source=model.name, bytes=model.bytes, reason="storage.max")
            self.on_removed(model.name, model.bytes)

    async def _bring_in(self, fingerprints: Collection[str], fetched: bool) -> bool:
        """Look for the files of these engines; whether all that are still wanted have theirs."""
        if fetched:
            await self.on_fetched()
        await self._look_again()
        return all(self._demands[f].place.path is not None for f in fingerprints if f in self._demands)

    async def _look_again(self) -> None:
        """Look for the files of the present deployment, whichever that is when the answer is there."""
        while (deployment := self._deployment) is not None:
            prepared = await self.prepare(deployment)
            if deployment is self._deployment:
                self.commit(prepared)
                return


def _nobody(*told: object) -> None: ...


async def _nothing() -> None: ...
