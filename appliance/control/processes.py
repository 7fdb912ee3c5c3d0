"""The engine processes, from spawn to reaped: what the registry orders is done, and it learns what became of it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from appliance import log
from appliance.control import memory, registry
from appliance.control.demand import Demand
from appliance.control.followers import Followers
from appliance.control.handle import EngineHandle
from appliance.control.hearing import Hearing
from appliance.control.launch import Backend, Launch
from appliance.control.machine import Machine
from appliance.control.run import Run
from appliance.control.sizes import Sizes
from appliance.control.spare import Spare
from appliance.control.tasks import Happen, Own
from appliance.control.vigil import attended, try_out, watch
from appliance.control.watchdog import Bound
from appliance.errors import LoadFailed

MEASURE_SECONDS = 15.0

_log = log.get()


class Processes:
    """`runs` are those that are not reaped yet, by number; `empty` is set while there are none.

    Every `start` is answered by the registry's `on_gone`, once, and before it by `on_ready` and `on_lost` where these
    happen. An engine `on_trial` must generate a token before it counts as ready, and read of its template what the
    engine before it read. `followers` are told of one that ended by itself; `counts` holds loads, unloads, deaths and
    load_failures by kind and model.
    """

    def __init__(
        self,
        machine: Machine,
        own: Own,
        happen: Happen,
        *,
        bound: Bound,
        sizes: Sizes,
        on_trial: Callable[[str], bool],
        followers: Followers,
        next_id: Callable[[], int],
    ) -> None:
        self.runs: dict[int, Run] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.empty = asyncio.Event()
        self.empty.set()
        self._machine, self._own, self._happen = machine, own, happen
        self._sizes = sizes
        self._bound, self._on_trial, self._followers, self._next_id = bound, on_trial, followers, next_id
        self._share = 0
        self._hearing = Hearing(own, happen, self.runs, on_trial)
        self.spare = Spare(own)

    def start(self, number: int, demand: Demand) -> None:
        """Spawn it; it is told the share of memory set last."""
        self.runs[number] = Run(demand, _now())
        self.empty.clear()
        self._own(self._run(number), f"engine {number}")

    def stop(self, number: int) -> None:
        """End it, if it has not ended yet."""
        if (run := self.runs.get(number)) is not None:
            run.close()

    def hurry(self, number: int) -> None:
        """Give it no time to end in, now or later."""
        if (run := self.runs.get(number)) is not None:
            run.hurry()

    def keep_spare(self, backend: Backend | None, option: str) -> None:
        """Have a blank process of this backend ready for the next load under this `engine.blas`; None: have none."""
        try:
            self.spare.keep(self._machine.blank(backend, option) if backend is not None else None)
        except LoadFailed as error:
            _log.warning("spare.failed", reason=error.message)
            self.spare.keep(None)
        self._replenish()

    def _replenish(self) -> None:
        """Never beside a load, which somebody waits for."""
        if all(run.ready is not None for run in self.runs.values()):
            self.spare.replenish()

    async def stop_all(self) -> None:
        """End all of them, and wait until they are reaped."""
        for run in self.runs.values():
            run.close()
        await self.empty.wait()

    def follow(self, demands: Mapping[str, Demand]) -> None:
        """What the deployment now asks of each engine."""
        self._hearing.keep({model.name for demand in demands.values() for model in demand.models})
        for number, run in self.runs.items():
            run.demand = demands.get(run.demand.fingerprint, run.demand)
            if run.ready is not None and run.handle is not None:
                self._hearing.listen(number, run, run.handle)

    def share(self, size: int) -> None:
        """Each may grow by so many bytes."""
        self._share = size
        self.configure()

    def configure(self) -> None:
        """Tell each its settings as they are now."""
        for run in self.runs.values():
            run.configure(run.demand.settings(self._share))

    # ---- one engine
    async def _run(self, number: int) -> None:
        run = self.runs[number]
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
            del self.runs[number]
            # Whether the next one fits is decided by what this one has really given back.
            await self.measure()
            if not self.runs:
                self.empty.set()
        self._happen(registry.on_gone, number, error, lonely)
        self._replenish()

    async def _serve(self, number: int, run: Run) -> bool:
        """Whether it died by its own doing, with a single request."""
        name = run.demand.first.name
        settings = run.demand.settings(self._share)
        launch = self._machine.launch(run.demand, settings)
        handle = await self._spawn(number, run, launch)
        run.handle, run.settings = handle, settings
        try:
            if run.stopping:
                handle.close()
            _log.info("model.loading", model=name, pid=handle.pid)
            async with attended(handle, self._bound):
                await self._get_ready(number, run, handle)
            self._happen(registry.on_ready, number)
            self._hearing.listen(number, run, handle)
            self.configure()
            self._replenish()
            await watch(handle, self._bound, run.demand.stall_target)
        finally:
            code = await handle.stop(run.grace)
            say = _log.info if run.stopping else _log.warning
            say("engine.gone", model=name, pid=handle.pid, exit=code, asked=run.stopping)
        return await self._ended(name, run, handle)

    async def _spawn(self, number: int, run: Run, launch: Launch) -> EngineHandle:
        """The spare, where it is of the right kind, else a new process."""
        if (given := await self.spare.take(launch.blank)) is None:
            return await EngineHandle.start(launch, lambda: self._lost(number))
        handle, run.saved = given
        handle.adopt(launch, lambda: self._lost(number))
        return handle

    async def _get_ready(self, number: int, run: Run, handle: EngineHandle) -> None:
        name = run.demand.first.name
        info = await handle.ready(run.demand.load_timeout)
        run.ready = _now()
        _log.info("model.ready", model=name, pid=handle.pid, seconds=round(run.ready - run.started, 2),
                  spare_seconds=round(run.saved, 2), dtype=info.dtype, weight_bytes=info.weight_bytes,
                  notes=list(info.notes))  # fmt: skip
        self.counts["loads", name] += 1
        if self._on_trial(run.demand.fingerprint):
            worse = partial(self._hearing.worse, run, handle)
            await try_out(handle, self._next_id(), info.context, run.demand.load_timeout, worse)
        await self.measure(number)
        handle.check()

    async def _ended(self, name: str, run: Run, handle: EngineHandle) -> bool:
        if run.stopping:
            self.counts["unloads", name] += 1
            return False
        end = await handle.ended()
        self.counts["deaths", name] += 1
        self._followers.died(name, handle.pid, end)
        return run.lonely and end.blamed

    def _lost(self, number: int) -> None:
        if (run := self.runs.get(number)) is not None:
            run.lost()
        self._happen(registry.on_lost, number)

    # ---- memory
    async def measure(self, loaded: int | None = None) -> None:
        """Look at what engines take; that of process `loaded` are its weights."""
        pids = {run.handle.pid: run for run in self.runs.values() if run.handle is not None}
        measured = await asyncio.to_thread(memory.measure, list(pids))
        # The spare is neither an engine nor free: what it is expected to take is kept out of their budget.
        if (spare := self.spare.pid) is not None:
            self.spare.taken = await asyncio.to_thread(memory.taken, spare)
        for pid, size in measured.processes.items():
            pids[pid].taken = size
        run = self.runs.get(loaded) if loaded is not None else None
        # What a scripted engine takes says nothing of the model it plays.
        real = run if run is not None and run.demand.first.source.kind != "fake" else None
        if real is not None and real.taken is not None:
            await asyncio.to_thread(self._sizes.note, real.demand.fingerprint, real.taken)
        self._happen(registry.on_measured, measured.capacity, loaded, real.taken if real else None)

    async def measure_again(self) -> None:
        """Keep looking."""
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.measure()


def _now() -> float:
    return asyncio.get_running_loop().time()
