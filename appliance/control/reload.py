"""What becomes of a deploy file that is read again: applied as a whole, or refused with the old one kept.

One worker with a dirty flag: triggers only set the flag, so they are coalesced and never lost, and it does not rest
before what was handled is what the files hold.
"""

import asyncio
import operator
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from appliance import log
from appliance.config import load
from appliance.config.deployment import EMPTY, Deployment
from appliance.config.diff import Change, ChangeSetting, diff
from appliance.config.problem import Rejected, as_data, human, located
from appliance.control import files
from appliance.control.beside import beside
from appliance.control.events import Events
from appliance.control.journal import Journal, generation
from appliance.control.running import Handled, Outcome, Proposal, Read, Running
from appliance.control.supervisor import Supervisor
from appliance.control.supply import Prepared
from appliance.control.watch import Watch
from appliance.errors import ApplianceError, GenerationMoved, StalePlan, UnknownGeneration

BOUND_ANEW = ("server.listen", "server.tls.cert", "server.tls.key", "server.tls.client_ca")
"""Settings of the class `listener` that a reload applies."""
LOGGED_CHANGES = 20
"""The lines of a plan the log shows; the journal keeps all of them."""

_log = log.get()


class Addresses(Protocol):
    """Who listens on the addresses of a deployment."""

    def opening(self, deployment: Deployment) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Within the block new addresses are bound; what is given switches to them. Raises Rejected."""


class NoAddresses:
    """Nobody listens: a deployment that is only loaded."""

    @asynccontextmanager
    async def opening(self, deployment: Deployment) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        async def switch() -> None:
            pass

        yield switch


def print_problems(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell_warnings(deployment: Deployment, show: Callable[[str], None] = print_problems) -> None:
    """Of a deployment that is good otherwise: to people with its lines, to programs as an event."""
    if deployment.observability.format == "console":
        show(human(deployment.warnings))
    else:
        _log.warning("config.warnings", problems=[located(problem) for problem in deployment.warnings])


class Reloader:
    """Keeps `running` and `supervisor` at what the file at `path` says, while `run` is running.

    `handled` are files that were dealt with at the start; without it, those of the running deployment.
    """

    def __init__(
        self,
        path: str,
        read: Read,
        running: Running,
        supervisor: Supervisor,
        journal: Journal,
        *,
        events: Events | None = None,
        handled: Handled | None = None,
        last: Outcome | None = None,
        addresses: Addresses | None = None,
        show: Callable[[str], None] = print_problems,
    ) -> None:
        running.last = last or Outcome("applied", running.generation)
        running.matches = self._good = handled is None
        self._path = path
        self._read = read
        self._running = running
        self._started = running.deployment
        self._supervisor = supervisor
        self._journal = journal
        self._events = events or Events()
        self._addresses = addresses or NoAddresses()
        self._show = show
        self._handled = handled or Handled(running.deployment.files, running.deployment.digest)
        self._dirty = asyncio.Event()
        self._turn = asyncio.Lock()
        self._passed = asyncio.Condition()
        self._asked = 0
        self._answered = 0
        self._watch = Watch(lambda: self._handled.files, lambda: running.deployment.server.quiet, self._dirty.set)

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
                tasks.create_task(self._watch.run(), name="reload watch")
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    # ---- what may be asked
    async def reload(self) -> Outcome:
        """Read the file now, changed or not, and say what became of it."""
        mine = self._ask()
        async with self._passed:
            await self._passed.wait_for(lambda: self._answered >= mine)
        return self._running.last

    async def reload_if(self, *, base: int | None = None, plan: str | None = None) -> Outcome:
        """As `reload`, but only while generation `base` runs, and only if it would carry out this very plan.

        Raises GenerationMoved, StalePlan, and with `plan` Rejected.
        """
        if base is None and plan is None:
            return await self.reload()
        async with self._turn:
            self._check(base)
            if plan is None:
                self._running.last = await self._attempt("reload")
            else:
                proposal = await self.propose()
                if proposal.id != plan:
                    raise StalePlan("the file or the running generation is not the one the plan was made for")
                self._running.last = await self._accept(proposal.deployment, "reload of a plan")
                self._handle(proposal.deployment.files, proposal.deployment.digest, good=True)
            self._supervisor.forgive()
            return self._running.last

    async def rollback(self, number: int, *, base: int | None = None) -> Outcome:
        """Apply what a kept generation was read from, as a new generation. The file is not read before it is saved
        again. Raises UnknownGeneration, GenerationMoved, Rejected where it is not good any more.
        """
        async with self._turn:
            self._check(base)
            stored = await asyncio.to_thread(self._journal.get, number)
            if stored is None:
                raise UnknownGeneration(f"generation {number} is not kept; `appliance history` lists those that are")
            deployment = await beside(self._read, stored.held, None)
            on_disk = await asyncio.to_thread(Handled.now, deployment.files)
            same = await beside(self._is_on_disk, deployment)
            self._running.last = await self._accept(deployment, f"rollback to {number}")
            self._handle(on_disk.files, on_disk.digest, good=same)
            return self._running.last

    async def propose(self, document: bytes | None = None) -> Proposal:
        """What a document, or the file as it is on disk, would change; nothing is applied. Raises Rejected."""
        running = self._running
        base, before = running.generation, running.deployment
        deployment = await beside(self._read, EMPTY, document)
        return Proposal(deployment, before, base, await beside(diff, before, deployment))

    async def refresh(self) -> None:
        """Look again at what the running deployment's own text says: files of its models may have come."""
        async with self._turn:
            with suppress(ApplianceError, OSError):
                deployment = await beside(self._read, self._running.deployment.sources, None)
                await self._accept(deployment, "model files")

    def _is_on_disk(self, deployment: Deployment) -> bool:
        with suppress(ApplianceError, OSError):
            return self._read(EMPTY, None) == deployment
        return False

    def _handle(self, files: tuple[str, ...], digest: str, *, good: bool) -> None:
        """Remember what was dealt with; it is `good` if it is what runs."""
        if files != self._handled.files:
            self._watch.renew()
        self._handled, self._good = Handled(files, digest), good
        self._running.matches = good

    def _ask(self) -> int:
        self._asked += 1
        self._dirty.set()
        return self._asked

    def _check(self, base: int | None) -> None:
        if base is not None and base != self._running.generation:
            raise GenerationMoved(f"generation {self._running.generation} is running, not {base}")

    # ---- the worker
    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            asked = self._asked
            try:
                async with self._turn:
                    await self._converge(forced=asked > self._answered)
            except Exception:  # noqa: BLE001 - the task supervisor: a bug here must not end what is being served
                _log.exception("config.bug", file=self._path)
                fault = "the file could not be applied because of a fault in appliance; its log says more"
                self._running.last = Outcome("rejected", self._running.generation, (), fault)
            async with self._passed:
                self._answered = asked
                self._passed.notify_all()

    async def _converge(self, forced: bool) -> None:
        """Read until what was read is what the files hold; where files are not watched, only when forced."""
        again = False
        while (held := await asyncio.to_thread(load.digest, self._handled.files)) != self._handled.digest or forced:
            if not forced and not self._running.deployment.server.watch:
                break
            if again:
                # Somebody is saving just now.
                await asyncio.sleep(self._running.deployment.server.quiet)
            again = True
            self._running.last = await self._attempt("reload" if forced else "file")
            if forced:
                self._supervisor.forgive()
                forced = False
        self._running.matches = self._good and held == self._handled.digest
        # A link that was switched leads to another directory, perhaps before this look began.
        if self._watch.watching != await asyncio.to_thread(files.watched, self._handled.files):
            self._watch.renew()

    async def _attempt(self, cause: str) -> Outcome:
        held = await asyncio.to_thread(load.digest, self._handled.files)
        try:
            try:
                deployment = await beside(self._read, EMPTY, None)
            except (ApplianceError, OSError):
                # Perhaps the middle of a save: only a file that stays wrong is reported.
                await asyncio.sleep(self._running.deployment.server.quiet)
                deployment = await beside(self._read, EMPTY, None)
            outcome = await self._accept(deployment, cause)
            self._handle(deployment.files, deployment.digest, good=True)
            return outcome
        except Rejected as rejected:
            # It is not read again before one of its files changes.
            self._handle(rejected.files, rejected.digest, good=False)
            return self._reject(rejected)
        except (ApplianceError, OSError) as error:
            self._handle(self._handled.files, held, good=False)
            return self._reject(error)

    async def _accept(self, deployment: Deployment, cause: str) -> Outcome:
        running = self._running
        if await beside(operator.eq, running.deployment, deployment):
            # Another comment, say: the digest is that of the new bytes.
            running.deployment = deployment
            return Outcome("unchanged", running.generation)
        prepared = await self._supervisor.prepare(deployment)
        number = running.generation + 1
        async with self._addresses.opening(deployment) as switch:
            lines, pending = await beside(self._record, deployment, number, cause)
            self._commit(prepared, number, pending, cause, lines)
            await switch()
        return Outcome("applied", number)

    def _record(self, deployment: Deployment, number: int, cause: str) -> tuple[list[str], tuple[str, ...]]:
        """Have it on disk before it runs; the lines of its plan, and what of it only a restart can apply."""
        lines = str(diff(self._running.deployment, deployment)).splitlines()
        entry = generation(number, deployment, time=time.time(), cause=cause, changes=tuple(lines))
        try:
            self._journal.write(entry)
        except OSError as error:
            # What is served matters more than what is remembered.
            _log.error("config.not_recorded", generation=number, reason=str(error))
        return lines, _only_by_restart(self._started, deployment)

    def _commit(
        self, prepared: Prepared, number: int, pending: tuple[str, ...], cause: str, lines: list[str]
    ) -> None:
        running, began = self._running, time.perf_counter()
        before, after = running.deployment.observability, prepared.deployment.observability
        if (before.format, before.level) != (after.format, after.level):
            log.configure(after.format, after.level)
        # No await between these: a request sees the old deployment or the new one, and so do the engines.
        running.deployment = prepared.deployment
        running.generation = number
        running.pending_restart = pending
        self._supervisor.commit(prepared)
        took = round((time.perf_counter() - began) * 1000, 2)
        said: dict[str, Any] = {"file": self._path, "generation": number, "cause": cause, "changes": lines}
        _log.info("config.applied", **{**said, "changes": lines[:LOGGED_CHANGES]}, count=len(lines), commit_ms=took)
        self._events.publish("config.applied", **said, commit_ms=took)
        if pending:
            _log.warning("config.pending_restart", settings=list(pending))
        if prepared.deployment.warnings:
            tell_warnings(prepared.deployment, self._show)

    def _reject(self, error: ApplianceError | OSError) -> Outcome:
        keeping = self._running.generation
        problems = error.problems if isinstance(error, Rejected) else ()
        reason = error.message if isinstance(error, ApplianceError) else str(error)
        said = {"file": self._path, "reason": reason, "keeping": keeping}
        _log.error("config.rejected", **said, problems=[located(problem) for problem in problems])
        self._events.publish("config.rejected", **said, problems=[as_data(problem) for problem in problems])
        # A program that reads the log has them as fields.
        if problems and self._running.deployment.observability.format == "console":
            self._show(human(problems))
        return Outcome("rejected", keeping, problems, reason)


def _only_by_restart(started: Deployment, deployment: Deployment) -> tuple[str, ...]:
    # Nothing of the many entities of a file needs a restart.
    many = {name: getattr(started, name) for name in ("models", "aliases", "profiles", "defaults")}
    actions = diff(started, replace(deployment, **many)).actions
    changes = (action.change for action in actions if isinstance(action, ChangeSetting))
    return tuple(change.path for change in changes if _needs_restart(change))


def _needs_restart(change: Change) -> bool:
    return change.apply == "process" or (change.apply == "listener" and change.path not in BOUND_ANEW)
