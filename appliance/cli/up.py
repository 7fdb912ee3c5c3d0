"""`appliance up`: the deploy file becomes a running server, in the foreground, until a signal ends it."""

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from appliance import log
from appliance.cli.reading import read
from appliance.cli.serve import Site, Start, serve
from appliance.cli.telling import NOT_CONVERGED, Timeout
from appliance.config.deployment import Deployment
from appliance.config.problem import Rejected, human
from appliance.control.beside import prefer_the_loop
from appliance.control.descriptors import raise_limit
from appliance.control.journal import Generation, Journal
from appliance.control.leftover import remove_leftovers
from appliance.control.reload import tell_warnings
from appliance.control.running import Handled, Outcome
from appliance.control.state_dir import held, state_of
from appliance.control.usage import Usage
from appliance.errors import StartRefused
from appliance.server.door import door
from appliance.server.listen import EXPOSED, exposed

REFUSED_BY_POLICY = 6


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
            site = Site(file, state, journal, newest)
            serving = serve(site, start, admit, again, patience, watchdog_pid)
            if missing := runner.run(serving):
                print(f"appliance: not converged: {'; '.join(map(str, missing))}", file=sys.stderr)
                raise typer.Exit(NOT_CONVERGED)


def _first(file: Path, newest: Generation | None) -> Start:
    try:
        return Start(read(file))
    except Rejected as rejected:
        print(human(rejected.problems), file=sys.stderr)
        again = f"; `appliance up -f {file} --last-good` starts generation {newest.number} again" if newest else ""
        raise StartRefused(f"{rejected.message}{again}", exit_code=Rejected.exit_code) from None


def _last_good(file: Path, newest: Generation | None) -> Start:
    """What ran last. The file is not read again before it changes, and what is wrong with it now is remembered."""
    if newest is None:
        raise StartRefused(f"nothing was ever started from {file}; start it without --last-good")
    deployment = read(file, newest.held)
    handled, last = Handled.now(deployment.files), None
    try:
        if (on_disk := read(file)) == deployment:
            return Start(on_disk, "last good")
    except Rejected as rejected:
        handled = Handled(rejected.files, rejected.digest)
        last = Outcome("rejected", newest.number, rejected.problems, rejected.message)
        print(human(rejected.problems), file=sys.stderr)
    return Start(deployment, "last good", handled, last)


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
