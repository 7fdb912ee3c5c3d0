"""`appliance up`: the deploy file becomes a running server, in the foreground, until a signal ends it."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from appliance import __version__, log
from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.problem import human
from appliance.control.reload import Reloader, Running
from appliance.control.supervisor import Supervisor
from appliance.errors import StartRefused
from appliance.models.inspect import inspect_source
from appliance.models.store import Store
from appliance.server.context import Context
from appliance.server.listen import address, is_loopback
from appliance.server.serving import Serving, bind_all

REFUSED_BY_POLICY = 6
READY_POLL_SECONDS = 0.1


def up(
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on addresses other machines can reach, without keys.")
    ] = False,
) -> None:
    """Start the appliance on a deploy file and keep it at what the file says."""
    log.configure()
    deployment = _read(file)
    if deployment.warnings:
        print(human(deployment.warnings), file=sys.stderr)
    _refuse_open(deployment, insecure)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(file, deployment))


def _read(file: Path) -> Deployment:
    store = Store()
    return load.read(
        file,
        environ=os.environ,
        inspect=lambda source: inspect_source(source, store),
        memory_bytes=load.machine_memory(),
    )


def _refuse_open(deployment: Deployment, insecure: bool) -> None:
    """Raises StartRefused for an address other machines can reach: this version has no keys."""
    for listen in deployment.server.listen:
        if not insecure and not is_loopback(listen):
            raise StartRefused(
                f"server.listen {listen} can be reached by other machines, and nothing asks them for a key;"
                " listen on 127.0.0.1, or start with --insecure",
                exit_code=REFUSED_BY_POLICY,
            )


async def _serve(file: Path, deployment: Deployment) -> None:
    ended = _until_signal()
    bound = bind_all(deployment.server.listen)
    running = Running(deployment)
    async with Supervisor(Store(), environ=os.environ) as supervisor:
        reloader = Reloader(str(file), lambda: _read(file), running, supervisor)
        supervisor.on_fetched = reloader.reload
        context = Context(
            running, supervisor, __version__, int(time.time()), lambda: reloader.last.status != "rejected"
        )
        await supervisor.apply(deployment)
        serving = Serving(context, bound)
        await serving.start()
        for _, sock in bound:
            print(f"appliance {__version__} is listening on {address(sock)}", flush=True)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(reloader.run()), tasks.create_task(_say_ready(supervisor))]
            await ended.wait()
            await serving.drain(running.deployment.server.drain_timeout)
            for task in beside:
                task.cancel()


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


async def _say_ready(supervisor: Supervisor) -> None:
    """Print a line when all that is loaded at startup is loaded."""
    while supervisor.readiness():
        await asyncio.sleep(READY_POLL_SECONDS)
    print("ready", flush=True)
