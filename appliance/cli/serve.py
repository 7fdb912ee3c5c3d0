"""What `appliance up` does once it knows what to start with: everything is put together, and runs until it ends."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path

from appliance import __version__, log
from appliance.config.deployment import Deployment
from appliance.control.conditions import Missing
from appliance.control.events import Events
from appliance.control.guardian import gone
from appliance.control.hooks import Hooks
from appliance.control.journal import Generation, Journal, generation, plain
from appliance.control.observer import Observer
from appliance.control.reload import Reloader
from appliance.control.running import Handled, Outcome, Read, Running
from appliance.control.scales import Scales
from appliance.control.sizes import Sizes
from appliance.control.state_dir import StateDir
from appliance.control.supervisor import Supervisor
from appliance.models.store import Store
from appliance.server.admin import AdminSocket
from appliance.server.admin_document import document
from appliance.server.admin_routes import Admin
from appliance.server.batch_runner import BatchRunner
from appliance.server.batch_store import BatchStore
from appliance.server.context import Context
from appliance.server.door import Door
from appliance.server.file_store import FileStore
from appliance.server.listen import address
from appliance.server.listeners import Bound, bind_all
from appliance.server.serving import Serving
from appliance.server.traffic import Traffic

READY_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    """What to start with; `handled` and `last` are about the file where that is something else."""

    deployment: Deployment
    cause: str = "start"
    handled: Handled | None = None
    last: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """The deploy file as it was named, and what is kept of it: `newest` is what ran last."""

    file: Path
    state: StateDir
    journal: Journal
    newest: Generation | None

    def number(self, start: Start) -> int:
        """That of the first generation, which is kept: that of the newest one if it is the same, else the next."""
        newest = self.newest
        if newest is not None and plain(start.deployment) == newest.resolved:
            return newest.number
        number = newest.number + 1 if newest else 1
        self.journal.write(generation(number, start.deployment, time=time.time(), cause=start.cause))
        return number


async def serve(
    site: Site, start: Start, door: Callable[[Running], Door], read: Read, patience: float | None,
    watchdog_pid: int | None,
) -> tuple[Missing, ...]:  # fmt: skip
    """Until a signal ends it, or what is missing when `patience` is over."""
    ended, state = _until_signal(), site.state
    bound = bind_all(start.deployment.server.listen)
    running = Running(start.deployment, site.number(start))
    async with Supervisor(Store(), environ=os.environ, sizes=Sizes(state.sizes)) as supervisor:
        context = _context(state, running, supervisor, door(running))
        serving = Serving(context, bound)
        reloader = Reloader(
            str(site.file), read, running, supervisor, site.journal,
            events=context.events, handled=start.handled, last=start.last, addresses=serving,
        )  # fmt: skip
        supervisor.followers.fetched = reloader.refresh
        await supervisor.apply(start.deployment)
        admin = Admin(context, reloader, site.journal, ended.set)
        socket = AdminSocket(admin, document(__version__), state.socket)
        try:
            await serving.start()
            await socket.start()
            _say_where(bound, start.deployment)
            beside = (reloader.run(), *_beside(context, serving), _end_after(watchdog_pid, ended))
            ready = _say_ready(supervisor, context.observer, patience, ended)
            return await _until_ended(ended, serving, context, ready, beside)
        finally:
            context.traffic.scales.save()
            await socket.close()
            context.batches.close()


def _context(state: StateDir, running: Running, supervisor: Supervisor, door: Door) -> Context:
    """What all handlers share, of what is kept in `state`."""
    events = Events()
    files = FileStore(state.files)
    return Context(
        file=state.file,
        socket=state.socket,
        running=running,
        supervisor=supervisor,
        observer=Observer(supervisor, lambda: running.generation, events),
        events=events,
        door=door,
        version=__version__,
        started=int(time.time()),
        files=files,
        batches=BatchStore(state.batches, files),
        traffic=Traffic(scales=Scales(state.scales)),
    )


def _beside(context: Context, serving: Serving) -> Iterable[Coroutine[None, None, None]]:
    """What is done beside answering requests, until it is cancelled."""
    running, traffic = context.running, context.traffic
    return (
        Hooks(context.events, lambda: running.deployment.hooks, os.environ).run(),
        serving.sweep(),
        serving.renew_certificates(),
        traffic.peers.watch(lambda: running.deployment.routing.peers.values()),
        traffic.keep(),
    )


def _say_where(bound: Iterable[Bound], deployment: Deployment) -> None:
    secure = deployment.server.tls is not None
    for _, sock in bound:
        print(f"appliance {__version__} is listening on {address(sock, secure)}", flush=True)


async def _until_ended(
    ended: asyncio.Event,
    serving: Serving,
    context: Context,
    ready: Coroutine[None, None, tuple[Missing, ...]],
    beside: Iterable[Coroutine[None, None, None]],
) -> tuple[Missing, ...]:
    """Do all that is done beside answering requests, and let what is being answered finish at the end."""
    async with asyncio.TaskGroup() as tasks:
        readiness = tasks.create_task(ready)
        lasting = [readiness, *(tasks.create_task(work) for work in beside)]
        batches = tasks.create_task(BatchRunner(context).run())
        await ended.wait()
        batches.cancel()
        await serving.drain(context.running.deployment.server.drain_timeout)
        await context.background.close()
        await context.traffic.peers.close()
        for task in lasting:
            task.cancel()
    return () if readiness.cancelled() else readiness.result()


async def _end_after(pid: int | None, ended: asyncio.Event) -> None:
    """End when this process does."""
    if pid is not None:
        await gone(pid)
        if not ended.is_set():
            log.get().info("watchdog.gone", pid=pid)
        ended.set()


def _until_signal() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the process at once."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        ended.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    return ended


async def _say_ready(
    supervisor: Supervisor, observer: Observer, patience: float | None, ended: asyncio.Event
) -> tuple[Missing, ...]:
    """Print a line when all that is loaded at startup is loaded. Where `patience` ends first, so does everything,
    and what is missing is given.
    """
    if patience is not None and (missing := await observer.converged(patience)):
        ended.set()
        return missing
    while supervisor.readiness():
        await asyncio.sleep(READY_POLL_SECONDS)
    print("ready", flush=True)
    return ()
