"""The owner of all engines: it alone holds the registry, and performs what the registry decides.

async with Supervisor(store, environ=environ) as supervisor:
    await supervisor.apply(deployment)
    async with supervisor.acquire(model) as lease:
        stream = lease.handle.generate(submission)
"""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from appliance import log
from appliance.config.deployment import Deployment, ModelSpec, Source
from appliance.control import demand, memory, registry
from appliance.control.demand import Demand, Place
from appliance.control.fetch import LOCAL, fetch
from appliance.control.handle import EngineHandle
from appliance.control.machine import Machine
from appliance.control.residency import (
    Effect,
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
from appliance.control.status import ModelStatus, Observed, describe
from appliance.control.suspicion import End
from appliance.control.vigil import probe, watch
from appliance.control.watchdog import Bound
from appliance.errors import InUse, LoadFailed, SourceError, UnknownModel
from appliance.models.store import Store
from appliance.vocab.spec import EngineSettings, ModelInfo

STOP_GRACE_SECONDS = 10.0
HANG = Bound()
MEASURE_SECONDS = 15.0

_log = log.get()


@dataclass(frozen=True, slots=True)
class Lease:
    """One request's hold on a loaded engine.

    `model` is the spec asked for, or the present one of that name where its engine has changed meanwhile.
    `load_seconds` of the wait were loading (0: it was warm), `queue_seconds` everything else.
    """

    handle: EngineHandle
    model: ModelSpec
    info: ModelInfo
    queue_seconds: float
    load_seconds: float
    id: int
    alone: Callable[[], bool]
    """Whether this request had no company on its engine, from its grant to the end or to now."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A deployment with what had to be looked up on disk for it."""

    deployment: Deployment
    demands: Mapping[str, Demand]


@dataclass(slots=True)
class _Run:
    """One engine process as the supervisor sees it."""

    demand: Demand
    started: float
    ready: float | None = None
    handle: EngineHandle | None = None
    stopping: bool = False
    settings: EngineSettings | None = None
    held: set[int] = field(default_factory=set)
    mixed: set[int] = field(default_factory=set)
    """The leases that hold it, and those that ever had company."""
    taken: int | None = None
    """Bytes of memory, when last measured."""
    lonely: bool = False
    """It was lost with a single lease that never had company."""

    def join(self, lease: int) -> None:
        if self.held:
            self.mixed |= {*self.held, lease}
        self.held.add(lease)

    def lost(self) -> None:
        self.lonely = len(self.held) == 1 and not self.held & self.mixed

    def close(self) -> None:
        self.stopping = True
        if self.handle is not None:
            self.handle.close()

    def configure(self, settings: EngineSettings) -> None:
        if self.handle is not None and settings != self.settings:
            self.settings = settings
            self.handle.configure(settings)


@dataclass(slots=True)
class _Download:
    task: asyncio.Task[None] | None = None
    progress: tuple[str, int, int] = ("starting", 0, 0)
    fingerprints: set[str] = field(default_factory=set)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Supervisor:
    """See the module. All methods belong to one event loop.

    `environ` is what engines and downloads get, `engine_log` the format and level of what engines log; an engine that
    makes no progress within `bound` is killed.
    `on_fetched` is awaited after a download, so that whoever resolves deployments can look at the new files;
    `on_change` is called whenever something about an engine may have changed, `on_death` with model, pid and end of
    an engine that ended by itself.
    `counts` holds how often something happened, by kind (loads, unloads, deaths, load_failures) and model.
    """

    def __init__(
        self,
        store: Store,
        *,
        environ: Mapping[str, str],
        engine_log: tuple[str, str] = ("console", "info"),
        bound: Bound = HANG,
    ) -> None:
        self.on_fetched: Callable[[], Awaitable[object]] | None = None
        self.on_change: Callable[[], None] = _nobody
        self.on_death: Callable[[str, int, End], None] = _nobody
        self.counts: Counter[tuple[str, str]] = Counter()
        self._store = store
        self._bound = bound
        self._machine = Machine.of_this(environ, engine_log)
        self._state = Registry()
        self._deployment: Deployment | None = None
        self._demands: Mapping[str, Demand] = {}
        self._runs: dict[int, _Run] = {}
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._downloads: dict[Source, _Download] = {}
        self._share = 0
        self._pins: dict[str, float] = {}
        self._ids = itertools.count(1)
        self._alarm: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._measuring = self._own(self._measure_again(), "measure")
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
        places = await asyncio.to_thread(_survey, deployment, self._store, self._machine)
        return Prepared(deployment, demand.demands(deployment, places))

    def commit(self, prepared: Prepared) -> None:
        """Switch to a prepared deployment, at once and as a whole."""
        self._deployment, self._demands = prepared.deployment, {**self._demands, **prepared.demands}
        wanted = {model.source for model in prepared.deployment.models.values()}
        for source in self._downloads.keys() - wanted:
            self._downloads.pop(source).cancel()
        for run in self._runs.values():
            run.demand = self._demands.get(run.demand.fingerprint, run.demand)
        wants = {fingerprint: each.want for fingerprint, each in prepared.demands.items()}
        names, terms = demand.names(prepared.deployment), demand.terms(prepared.deployment)
        self._happen(registry.on_apply, wants, names, terms)
        self._happen(registry.on_pin, self._pinned())
        kept = {*prepared.demands, *self._state.engines, *(want.fingerprint for want in self._state.former.values())}
        self._demands = {fingerprint: each for fingerprint, each in self._demands.items() if fingerprint in kept}
        self._configure()

    def unload(self, name: str) -> None:
        """Stop the engine of this model; the next request loads it again. Raises InUse while requests hold it, or
        wait for it, UnknownModel.
        """
        if (fingerprint := self._state.names.get(name)) is None:
            raise UnknownModel(f"there is no model {name!r} in this deployment", param="model")
        engine = self._state.engines[fingerprint]
        if users := len(engine.leases) + len(engine.waiters):
            raise InUse(
                f"{name} is used by {users} request{'s' if users > 1 else ''}; try again when they have ended"
            )
        self._happen(registry.on_unload, fingerprint)

    def pin(self, name: str, seconds: float) -> None:
        """Keep this model in memory once it is there, for so long; 0 takes that back, what the deployment pins stays
        pinned. It outlives reloads, not this process. Raises UnknownModel.
        """
        if name not in self._state.names:
            raise UnknownModel(f"there is no model {name!r} in this deployment", param="model")
        self._pins[name] = self._now() + seconds
        self._happen(registry.on_pin, self._pinned())
        if 0 < seconds < math.inf:
            asyncio.get_running_loop().call_later(seconds, self._unpin)

    def _unpin(self) -> None:
        self._happen(registry.on_pin, self._pinned())

    def _pinned(self) -> dict[str, float]:
        """Seconds left, by model."""
        now = self._now()
        self._pins = {name: until for name, until in self._pins.items() if until > now}
        return {name: until - now for name, until in self._pins.items()}

    def forgive(self) -> None:
        """Try again at the next request what has failed to load or to be fetched."""
        self._happen(registry.on_forgive)

    # ---- requests
    def next_id(self) -> int:
        """A number unique for the life of this supervisor, as submissions need."""
        return next(self._ids)

    @asynccontextmanager
    async def acquire(self, model: ModelSpec, *, alone: bool = False, resumed: bool = False) -> AsyncIterator[Lease]:
        """Hold the engine of `model`, loading it first where needed; waiting is not bounded here. `alone` without
        company until `clear`ed; `resumed` requests wait until a load that failed for a passing reason is tried again.

        Raises UnknownModel if it is not in the deployment any more, Unavailable while closing or where it cannot
        fit in memory, LoadFailed or SourceError with the reason it cannot be had.
        """
        asked = self._now()
        waiter = self.next_id()
        run: _Run | None = None
        served = False
        try:
            while run is None:  # it may end between the grant and our turn
                answer = self._waiting[waiter] = asyncio.get_running_loop().create_future()
                self._happen(registry.on_acquire, Waiter(waiter, model.name, alone, resumed))
                run = self._runs.get(await answer)
            yield self._lease(run, model, asked, waiter)
            served = True
        finally:
            self._waiting.pop(waiter, None)
            if run is not None:
                run.held.discard(waiter)
                run.mixed.discard(waiter)
            # A request cancelled while waiting may have been granted a moment ago: both are harmless if not so.
            self._happen(registry.on_leave, waiter)
            self._happen(registry.on_release, waiter, served)

    def clear(self, lease: Lease) -> bool:
        """Let others join a lease that is held alone; whether another one waits to be alone there."""
        self._happen(registry.on_cleared, lease.id)
        engine = self._state.engines.get(self._state.names.get(lease.model.name, ""))
        return engine is not None and any(waiter.alone for waiter in engine.waiters)

    def _lease(self, run: _Run, asked_for: ModelSpec, asked: float, id: int) -> Lease:
        assert run.handle is not None
        assert run.handle.info is not None
        assert run.ready is not None
        now = self._now()
        loading = max(0.0, run.ready - max(asked, run.started))
        same = asked_for.fingerprint == run.demand.first.fingerprint
        named = (model for model in run.demand.models if model.name == asked_for.name)
        model = asked_for if same else next(named, asked_for)
        queued = max(0.0, now - asked - loading)
        return Lease(run.handle, model, run.handle.info, queued, loading, id, lambda: id not in run.mixed)

    # ---- what is the case
    def status(self) -> tuple[ModelStatus, ...]:
        """Every model of the deployment and the engines on their way out, for people and metrics."""
        now = self._now()
        observed = {fingerprint: self._observe(fingerprint) for fingerprint in self._state.engines}
        return describe(self._state, self._deployment, observed, now, self._pinned())

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
        run = self._runs.get(number)
        downloads = (d for d in self._downloads.values() if fingerprint in d.fingerprints)
        download = next(downloads, None)
        handle = run.handle if run else None
        return Observed(
            pid=handle.pid if handle else None,
            load=handle.progress if handle and handle.info is None else None,
            download=download.progress if download else None,
            info=handle.info if handle else None,
            taken=run.taken if run else None,
        )

    # ---- the end
    async def close(self, drain_timeout: float) -> None:
        """Take no more requests, let running ones finish for `drain_timeout` seconds, then stop every engine."""
        self._happen(registry.on_close)
        for source in list(self._downloads):
            self._downloads.pop(source).cancel()
        try:
            async with asyncio.timeout(drain_timeout):
                await self._empty.wait()
        except TimeoutError:
            for run in self._runs.values():
                run.close()
            await self._empty.wait()
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
                    self._runs[number].join(waiter)
                    answer.set_result(number)
            case Reject(waiter, error):
                if (answer := self._waiting.get(waiter)) is not None and not answer.done():
                    answer.set_exception(error)
            case Spawn(fingerprint, number):
                self._runs[number] = _Run(self._demands[fingerprint], self._now())
                self._empty.clear()
                self._own(self._run(number), f"engine {number}")
            case Stop(number):
                if (run := self._runs.get(number)) is not None:
                    run.close()
            case Fetch(fingerprint):
                self._download(fingerprint)
            case Share(size):
                self._share = size
                self._configure()
            case WakeAt(at):
                if self._alarm is not None:
                    self._alarm.cancel()
                loop = asyncio.get_running_loop()
                self._alarm = loop.call_at(at, self._happen, registry.on_tick)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task of the supervisor's own: it must not log under the id of the request that happened to cause it."""
        return self._tasks.create_task(work, name=name, context=Context())

    def _configure(self) -> None:
        for run in self._runs.values():
            run.configure(run.demand.settings(self._share))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # ---- one engine, from spawn to reaped
    async def _run(self, number: int) -> None:
        run = self._runs[number]
        error: LoadFailed | None = None
        lonely = False
        try:
            lonely = await self._serve(number, run)
        except LoadFailed as failed:
            error = failed
            if not run.stopping:
                self.counts["load_failures", run.demand.first.name] += 1
                _log.warning("model.load_failed", model=run.demand.first.name, permanent=failed.permanent,
                             reason=failed.message)  # fmt: skip
        except Exception:  # noqa: BLE001 - the task supervisor: a bug in one engine's task must not end the others
            _log.exception("engine.bug", model=run.demand.first.name)
            error = LoadFailed(f"the engine of {run.demand.first.name} could not be run")
        finally:
            del self._runs[number]
            # Whether the next one fits is decided by what this one has really given back.
            await self._measure()
            if not self._runs:
                self._empty.set()
        self._happen(registry.on_gone, number, error, lonely)

    async def _serve(self, number: int, run: _Run) -> bool:
        """Whether it died by its own doing, with a single request."""
        name = run.demand.first.name
        settings = run.demand.settings(self._share)
        launch = self._machine.launch(run.demand, settings)
        handle = await EngineHandle.start(launch, lambda: self._lost(number))
        run.handle, run.settings = handle, settings
        try:
            if run.stopping:
                handle.close()
            _log.info("model.loading", model=name, pid=handle.pid)
            info = await handle.ready(run.demand.load_timeout)
            run.ready = self._now()
            _log.info("model.ready", model=name, pid=handle.pid, seconds=round(run.ready - run.started, 2),
                      dtype=info.dtype, weight_bytes=info.weight_bytes, notes=list(info.notes))  # fmt: skip
            self.counts["loads", name] += 1
            if run.demand.fingerprint in self._state.former:
                await probe(handle, self.next_id(), info.context, run.demand.load_timeout)
            await self._measure(number)
            handle.check()
            self._happen(registry.on_ready, number)
            self._configure()
            await watch(handle, self._bound, run.demand.stall_target)
        finally:
            code = await handle.stop(STOP_GRACE_SECONDS)
            say = _log.info if run.stopping else _log.warning
            say("engine.gone", model=name, pid=handle.pid, exit=code, asked=run.stopping)
        return await self._ended(name, run, handle)

    async def _measure(self, loaded: int | None = None) -> None:
        """Look at what engines take; that of process `loaded` are its weights."""
        pids = {run.handle.pid: run for run in self._runs.values() if run.handle is not None}
        measured = await asyncio.to_thread(memory.measure, list(pids))
        for pid, size in measured.processes.items():
            pids[pid].taken = size
        run = self._runs.get(loaded) if loaded is not None else None
        # What a scripted engine takes says nothing of the model it plays.
        real = run is not None and run.demand.first.source.kind != "fake"
        self._happen(registry.on_measured, measured.capacity, loaded, run.taken if run and real else None)

    async def _measure_again(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self._measure()

    async def _ended(self, name: str, run: _Run, handle: EngineHandle) -> bool:
        if run.stopping:
            self.counts["unloads", name] += 1
            return False
        end = await handle.ended()
        self.counts["deaths", name] += 1
        self.on_death(name, handle.pid, end)
        return run.lonely and end.blamed

    def _lost(self, number: int) -> None:
        if (run := self._runs.get(number)) is not None:
            run.lost()
        self._happen(registry.on_lost, number)

    # ---- downloads
    def _download(self, fingerprint: str) -> None:
        source = self._demands[fingerprint].first.source
        if (running := self._downloads.get(source)) is not None:
            running.fingerprints.add(fingerprint)
            return
        download = self._downloads[source] = _Download(fingerprints={fingerprint})
        download.task = self._own(self._fetch(source, download), f"fetch {source.text}")

    async def _fetch(self, source: Source, download: _Download) -> None:
        error: SourceError | None = None
        try:
            await self._bring(source, download)
        except SourceError as failed:
            error = failed
            _log.warning("model.fetch_failed", source=source.text, permanent=failed.permanent, reason=failed.message)
        except Exception:  # noqa: BLE001 - the task supervisor again
            _log.exception("model.fetch_bug", source=source.text)
            error = SourceError(f"{source.text} could not be fetched", permanent=False)
        finally:
            # A cancelled download has been replaced, or is about to be.
            if self._downloads.get(source) is download:
                del self._downloads[source]
        for fingerprint in download.fingerprints:
            self._happen(registry.on_fetched, fingerprint, error)

    async def _bring(self, source: Source, download: _Download) -> None:
        """Fetch, have the deployment resolved again with the new files, and see that they are there."""

        def progress(phase: str, done: int, total: int) -> None:
            download.progress = (phase, done, total)

        if source.kind not in LOCAL:
            _log.info("model.fetching", source=source.text)
            await fetch(source, self._store, self._machine.environ, progress)
            _log.info("model.fetched", source=source.text)
            if self.on_fetched is not None:
                await self.on_fetched()
        await self._look_again()
        if any(f in self._demands and self._demands[f].place.path is None for f in download.fingerprints):
            raise SourceError(f"there is no model at {source.text}", permanent=False)

    async def _look_again(self) -> None:
        """Look for the files of the present deployment, whichever that is when the answer is there."""
        while (deployment := self._deployment) is not None:
            prepared = await self.prepare(deployment)
            if deployment is self._deployment:
                self.commit(prepared)
                return


def _nobody(*told: object) -> None: ...


def _survey(deployment: Deployment, store: Store, machine: Machine) -> dict[str, Place]:
    models = demand.distinct(deployment.models.values())
    return {model.fingerprint: machine.place(model, store.locate(model.source)) for model in models}
