"""`appliance up`: the deploy file becomes a running server, in the foreground, until a signal ends it."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from appliance import __version__, log
from appliance.cli.reading import read
from appliance.cli.telling import NOT_CONVERGED, Timeout
from appliance.config.deployment import Deployment
from appliance.config.problem import Rejected, human
from appliance.control.beside import prefer_the_loop
from appliance.control.conditions import Missing
from appliance.control.descriptors import raise_limit
from appliance.control.events import Events
from appliance.control.guardian import gone
from appliance.control.hooks import Hooks
from appliance.control.journal import Generation, Journal, generation, plain
from appliance.control.leftover import remove_leftovers
from appliance.control.observer import Observer
from appliance.control.reload import Reloader, tell_warnings
from appliance.control.running import Handled, Outcome, Read, Running
from appliance.control.scales import Scales
from appliance.control.sizes import Sizes
from appliance.control.state_dir import StateDir, held, state_of
from appliance.control.supervisor import Supervisor
from appliance.control.usage import Usage
from appliance.errors import StartRefused
from appliance.models.store import Store
from appliance.server.admin import AdminSocket
from appliance.server.admin_document import document
from appliance.server.admin_routes import Admin, standing
from appliance.server.batch_runner import BatchRunner
from appliance.server.batch_store import BatchStore
from appliance.server.context import Context
from appliance.server.door import Door, door
from appliance.server.file_store import FileStore
from appliance.server.listen import EXPOSED, address, exposed
from appliance.server.listeners import bind_all
from appliance.server.serving import Serving
from appliance.server.traffic import Traffic

REFUSED_BY_POLICY = 6
READY_POLL_SECONDS = 0.1


def up(
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without keys on addresses that other machines can reach.")
    ] = False,
    last_good: Annotated[
        bool, typer.Option("--last-good", help="Start the last accepted configuration, whatever the file says now.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Exit with code 4 if the models are not as the file says within --timeout."),
    ] = False,
    timeout: Timeout = 300.0,
    watchdog_pid: Annotated[
        int | None,
        typer.Option("--watchdog-pid", min=1, help="Stop, as on SIGTERM, when this process is gone."),
    ] = None,
) -> None:
    """Serve a deploy file in the foreground, and follow its changes."""
    log.configure()
    prefer_the_loop()
    raise_limit()
    state = state_of(file)
    with held(state):
        for gone in remove_leftovers(state.path.parent, time.time()):
            log.get().info("state.removed", file=str(gone), reason="the file is gone, and was not served for 30 days")
        journal = Journal(state.generations)
        journal.clean()
        newest = journal.newest()
        start = _last_good(file, newest) if last_good else _first(file, newest)
        observability = start.deployment.observability
        log.configure(observability.format, observability.level)
        if start.deployment.warnings:
            tell_warnings(start.deployment)
        _refuse_open(start.deployment, insecure)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, Usage(state.usage) as usage:
            admit, again = partial(door, insecure=insecure, usage=usage), partial(_read, file, insecure)
            patience = timeout if wait else None
            serving = _serve(file, state, journal, newest, start, admit, again, patience, watchdog_pid)
            if missing := runner.run(serving):
                print(f"appliance: not converged: {'; '.join(map(str, missing))}", file=sys.stderr)
                raise typer.Exit(NOT_CONVERGED)


@dataclass(frozen=True, slots=True)
class _Start:
    """What to start with; `handled` and `last` are about the file where that is something else."""

    deployment: Deployment
    cause: str = "start"
    handled: Handled | None = None
    last: Outcome | None = None


def _first(file: Path, newest: Generation | None) -> _Start:
    try:
        return _Start(read(file))
    except Rejected as rejected:
        print(human(rejected.problems), file=sys.stderr)
        again = f"; `appliance up -f {file} --last-good` starts generation {newest.number} again" if newest else ""
        raise StartRefused(f"{rejected.message}{again}", exit_code=Rejected.exit_code) from None


def _last_good(file: Path, newest: Generation | None) -> _Start:
    """What ran last. The file is not read again before it changes, and what is wrong with it now is remembered."""
    if newest is None:
        raise StartRefused(f"nothing was ever started from {file}; start it without --last-good")
    deployment = read(file, newest.held)
    handled, last = Handled.now(deployment.files), None
    try:
        if (on_disk := read(file)) == deployment:
            return _Start(on_disk, "last good")
    except Rejected as rejected:
        handled = Handled(rejected.files, rejected.digest)
        last = Outcome("rejected", newest.number, rejected.problems, rejected.message)
        print(human(rejected.problems), file=sys.stderr)
    return _Start(deployment, "last good", handled, last)


def _refuse_open(deployment: Deployment, insecure: bool) -> None:
    """Raises StartRefused for an address other machines can reach where nothing asks them for a key."""
    if not insecure and (listen := exposed(deployment)) is not None:
        raise StartRefused(f"server.listen {listen} {EXPOSED}", exit_code=REFUSED_BY_POLICY)


def _read(file: Path, insecure: bool, held: Mapping[str, bytes], document: bytes | None) -> Deployment:
    """For reloads. Raises Rejected, also for what a start would refuse."""
    deployment = read(file, held, document)
    if not insecure and (listen := exposed(deployment)) is not None:
        where = deployment.listen_at[deployment.server.listen.index(listen)]
        raise Rejected([replace(where, message=f"{listen} {EXPOSED}")], deployment.files, deployment.digest)
    return deployment


def _numbered(journal: Journal, newest: Generation | None, start: _Start) -> int:
    """The number of the first generation: that of the newest one if it is the same, else the next."""
    if newest is not None and plain(start.deployment) == newest.resolved:
        return newest.number
    number = newest.number + 1 if newest else 1
    journal.write(generation(number, start.deployment, time=time.time(), cause=start.cause))
    return number


async def _serve(
    file: Path,
    state: StateDir,
    journal: Journal,
    newest: Generation | None,
    start: _Start,
    door: Callable[[Running], Door],
    read: Read,
    patience: float | None,
    watchdog_pid: int | None,
) -> tuple[Missing, ...]:
    """Until a signal ends it, or what is missing when `patience` is over."""
    ended, events = _until_signal(), Events()
    bound = bind_all(start.deployment.server.listen)
    running = Running(start.deployment, _numbered(journal, newest, start))
    files = FileStore(state.files)
    batches = BatchStore(state.batches, files)
    async with Supervisor(Store(), environ=os.environ, sizes=Sizes(state.sizes)) as supervisor:
        observer = Observer(supervisor, lambda: running.generation, events)
        context = Context(
            running,
            supervisor,
            door(running),
            __version__,
            int(time.time()),
            files,
            batches,
            lambda: standing(admin),
            traffic=Traffic(scales=Scales(state.scales)),
        )
        serving = Serving(context, bound)
        reloader = Reloader(
            str(file),
            read,
            running,
            supervisor,
            journal,
            events=events,
            handled=start.handled,
            last=start.last,
            addresses=serving,
        )
        supervisor.on_fetched = reloader.refresh
        await supervisor.apply(start.deployment)
        admin = Admin(state.file, os.getpid(), context, reloader, observer, journal, events, ended.set)
        socket = AdminSocket(admin, document(__version__), state.socket)
        try:
            await serving.start()
            await socket.start()
            for _, sock in bound:
                secure = start.deployment.server.tls is not None
                print(f"appliance {__version__} is listening on {address(sock, secure)}", flush=True)
            beside = (
                reloader.run(),
                Hooks(events, lambda: running.deployment.hooks, os.environ).run(),
                serving.sweep(),
                serving.renew_certificates(),
                context.traffic.peers.watch(lambda: running.deployment.routing.peers.values()),
                context.traffic.keep(),
                _end_after(watchdog_pid, ended),
            )
            ready = _say_ready(supervisor, observer, patience, ended)
            return await _until_ended(ended, serving, context, ready, beside)
        finally:
            context.traffic.scales.save()
            await socket.close()
            batches.close()


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
