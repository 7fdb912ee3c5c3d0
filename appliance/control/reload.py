"""When the deploy file is read again, and what becomes of it: applied as a whole, or refused with the old one kept.

One worker with a dirty flag: triggers only set the flag, so they are coalesced and never lost, and it does not rest
before what was handled is what the files hold.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from watchfiles import Change, awatch

from appliance import log
from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.diff import ChangeSetting, Plan, diff
from appliance.config.problem import Problem, Rejected, human
from appliance.control import files
from appliance.control.supervisor import Supervisor
from appliance.errors import ApplianceError

BACKSTOP_SECONDS = 2.0
"""How often the files are looked at, for file systems that send no notifications."""
LONGEST_QUIET_FACTOR = 3
"""A file that never comes to rest is read after this many quiet times."""

_log = log.get()


@dataclass(slots=True)
class Running:
    """The deployment in force and its number; only the reloader writes. A request keeps the one it began with.

    `pending_restart` are the settings of it that only a restart can apply.
    """

    deployment: Deployment
    generation: int = 1
    pending_restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one look at the files. A rejected file leaves `generation` as it was."""

    status: Literal["applied", "unchanged", "rejected"]
    generation: int
    problems: tuple[Problem, ...] = ()
    message: str = ""


def print_problems(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Reloader:
    """Keeps `running` and `supervisor` at what the file at `path` says, while `run` is running.

    `read` parses, checks and resolves it, blocking; it raises Rejected with all problems.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[], Deployment],
        running: Running,
        supervisor: Supervisor,
        *,
        show: Callable[[str], None] = print_problems,
    ) -> None:
        self.last = Outcome("applied", running.generation)
        self._path = path
        self._read = read
        self._running = running
        self._started = running.deployment
        self._supervisor = supervisor
        self._show = show
        self._dirty = asyncio.Event()
        self._passed = asyncio.Condition()
        self._asked = 0
        self._answered = 0
        self._handled = running.deployment.digest
        self._rewatch = asyncio.Event()

    async def run(self) -> None:
        """Serve all triggers until cancelled."""
        # The file may have changed since it was read at the start.
        self._dirty.set()
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGHUP, self._ask)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._work(), name="reload")
                tasks.create_task(self._watch(), name="reload watch")
                tasks.create_task(self._backstop(), name="reload backstop")
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def reload(self) -> Outcome:
        """Read the file now, changed or not, and say what became of it."""
        mine = self._ask()
        async with self._passed:
            await self._passed.wait_for(lambda: self._answered >= mine)
        return self.last

    def _ask(self) -> int:
        self._asked += 1
        self._dirty.set()
        return self._asked

    # ---- triggers
    async def _watch(self) -> None:
        while True:
            watched = await asyncio.to_thread(files.watched, self._names())
            self._rewatch = asyncio.Event()
            with suppress(OSError, RuntimeError):
                await self._listen(watched)
            if not self._rewatch.is_set():
                # Nothing to watch, or no more watches to be had: the backstop serves until something changes.
                _log.warning("config.not_watched", directories=sorted(watched.directories))
                await self._rewatch.wait()

    async def _listen(self, watched: files.Watched) -> None:
        def ours(change: Change, path: str) -> bool:
            return path in watched.paths

        if not watched.directories:
            return
        # Runs once the watch below is set up: a save just before it was seen by nobody.
        asyncio.get_running_loop().call_soon(self._dirty.set)
        quiet = int(self._running.deployment.server.quiet * 1000)
        async for _ in awatch(
            *watched.directories, watch_filter=ours, step=quiet, debounce=quiet * LONGEST_QUIET_FACTOR,
            recursive=False, stop_event=self._rewatch,
        ):  # fmt: skip
            if self._running.deployment.server.watch:
                self._dirty.set()

    async def _backstop(self) -> None:
        known = None
        while True:
            stamps = await asyncio.to_thread(files.stamps, self._names())
            if known is not None and stamps != known and self._running.deployment.server.watch:
                self._dirty.set()
            known = stamps
            await asyncio.sleep(BACKSTOP_SECONDS)

    # ---- the worker
    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            asked = self._asked
            try:
                self.last = await self._converge(forced=asked > self._answered)
            except Exception:  # noqa: BLE001 - the task supervisor: a bug here must not end what is being served
                _log.exception("config.bug", file=self._path)
            async with self._passed:
                self._answered = asked
                self._passed.notify_all()

    async def _converge(self, forced: bool) -> Outcome:
        """Read until what was read is what the files hold."""
        outcome = self.last
        watched = await asyncio.to_thread(files.watched, self._names())
        while (held := await asyncio.to_thread(load.digest, self._names())) != self._handled or forced:
            outcome = await self._attempt()
            if forced:
                self._supervisor.forgive()
                forced = False
            # A rejected file is not read again before it changes.
            self._handled = held if outcome.status == "rejected" else self._running.deployment.digest
        if watched != await asyncio.to_thread(files.watched, self._names()):
            self._rewatch.set()
        return outcome

    async def _attempt(self) -> Outcome:
        try:
            try:
                deployment = await asyncio.to_thread(self._read)
            except (ApplianceError, OSError):
                # Perhaps the middle of a save: only a file that stays wrong is reported.
                await asyncio.sleep(self._running.deployment.server.quiet)
                deployment = await asyncio.to_thread(self._read)
        except (ApplianceError, OSError) as error:
            return self._reject(error)
        return await self._accept(deployment)

    async def _accept(self, deployment: Deployment) -> Outcome:
        running = self._running
        if deployment == running.deployment:
            # Another comment, say: the digest is that of the new bytes.
            running.deployment = deployment
            return Outcome("unchanged", running.generation)
        prepared = await self._supervisor.prepare(deployment)
        plan = diff(running.deployment, deployment)
        # No await between these: a request sees the old deployment or the new one, and so do the engines.
        running.deployment = deployment
        running.generation += 1
        self._supervisor.commit(prepared)
        running.pending_restart = _only_by_restart(self._started, deployment)
        self._say(plan)
        return Outcome("applied", running.generation)

    def _say(self, plan: Plan) -> None:
        running = self._running
        _log.info("config.applied", file=self._path, generation=running.generation, changes=str(plan).splitlines())
        if running.pending_restart:
            _log.warning("config.pending_restart", settings=list(running.pending_restart))
        if running.deployment.warnings:
            self._show(human(running.deployment.warnings))

    def _reject(self, error: ApplianceError | OSError) -> Outcome:
        generation = self._running.generation
        if isinstance(error, Rejected):
            _log.error("config.rejected", file=self._path, reason=error.message, keeping=generation)
            self._show(str(error))
            return Outcome("rejected", generation, error.problems, error.message)
        reason = error.message if isinstance(error, ApplianceError) else str(error)
        _log.error("config.rejected", file=self._path, reason=reason, keeping=generation)
        return Outcome("rejected", generation, (), reason)

    def _names(self) -> tuple[str, ...]:
        return self._running.deployment.files


def _only_by_restart(started: Deployment, deployment: Deployment) -> tuple[str, ...]:
    actions = diff(started, deployment).actions
    changes = (action.change for action in actions if isinstance(action, ChangeSetting))
    return tuple(change.path for change in changes if change.apply in ("listener", "process"))
