"""Runs batches: every line as a request nobody waits for, behind all others, until its window ends.

What stops the server stops the lines that run; at the next start they are run again, and no others.
"""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from uuid import uuid4

from appliance import log
from appliance.errors import (
    ApplianceError,
    BadRequest,
    InvalidKey,
    LoadFailed,
    Overloaded,
    PeerFailed,
    RateLimited,
    SourceError,
    Unavailable,
)
from appliance.protocols import batch_lines, batches
from appliance.protocols.batch_lines import Entry, Line
from appliance.protocols.batches import Batch
from appliance.protocols.errors import shape_of
from appliance.server.adapters import ADAPTERS
from appliance.server.answering import whole
from appliance.server.batch_store import BatchStore, errors_id, output_id
from appliance.server.caller import Caller
from appliance.server.context import Context
from appliance.server.run import begin
from appliance.server.tally import tallied

LINES_AT_ONCE = 16
"""Of one batch; how many a model runs is for its rows to say."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
DISK_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a line of a batch was answered; `body` is JSON."""

    status: int
    request: str
    body: bytes


@dataclass(slots=True)
class BatchRunner:
    """Owns the batches of `context` that have not ended."""

    context: Context
    _cuts: dict[str, asyncio.Timeout] = field(default_factory=dict)
    _running: set[str] = field(default_factory=set)
    _rows: dict[tuple[str, int], asyncio.Semaphore] = field(default_factory=dict)

    @property
    def _store(self) -> BatchStore:
        return self.context.batches

    async def run(self) -> None:
        """Run what was left and what comes, until it is cancelled."""
        for batch in self._store.all():
            self._store.change(batch.id)
        async with asyncio.TaskGroup() as tasks:
            while True:
                id = await self._store.changed()
                batch = self._store.get(id, None)
                if batch.status == "cancelling" and (cut := self._cuts.get(id)) is not None:
                    cut.reschedule(0)
                if not batch.ended and id not in self._running:
                    self._running.add(id)
                    tasks.create_task(self._work(id), name=f"batch {id}")

    async def _work(self, id: str) -> None:
        try:
            with log.bound(batch=id):
                await self._through(id)
        except Exception:  # noqa: BLE001 - a task's edge: a bug in one batch must not end the others
            log.get().exception("batch.bug", batch=id)
        finally:
            self._running.discard(id)

    async def _through(self, id: str) -> None:
        entries, problems = await self._store.input(self._now(id))
        await self._store.save(batches.validated(self._now(id), len(entries), problems, _time()))
        if self._now(id).ended:
            log.get().warning("batch.refused", problems=len(problems))
            return
        expired = False
        await self._count(id)
        try:
            async with asyncio.timeout(max(0.0, self._now(id).expires_at - time.time())) as cut:
                self._cuts[id] = cut
                if self._now(id).status == "in_progress":
                    log.get().info("batch.running", lines=len(entries))
                    await self._lines(id, entries)
        except TimeoutError:
            expired = self._now(id).status == "in_progress"
        finally:
            self._cuts.pop(id, None)
        await self._end(id, entries, expired)

    def _now(self, id: str) -> Batch:
        return self._store.get(id, None)

    async def _count(self, id: str) -> set[str]:
        """What is done of it by its files."""
        answered, failed = await self._store.done(self._now(id))
        unrun = sum(not ran for ran in failed.values())
        self._store.count(batches.counted(self._now(id), len(answered), len(failed), unrun))
        return answered.keys() | failed.keys()

    async def _end(self, id: str, entries: tuple[Entry, ...], expired: bool) -> None:
        now = _time()
        ending = batches.finalizing(self._now(id), max(now, self._now(id).expires_at) if expired else now)
        await self._store.save(ending)
        done = await self._count(id)
        if ending.status == "finalizing" or ending.of_messages:
            why = batch_lines.EXPIRED if ending.status == "finalizing" else batch_lines.CANCELLED
            for entry in entries:
                if entry.custom_id not in done:
                    await self._keep(errors_id(id), batch_lines.not_run(_line_id(), entry.custom_id, why))
        await self._count(id)
        batch = self._now(id)
        output = await self._store.finish(output_id(id), f"{id}_output.jsonl", batch, now)
        errors = await self._store.finish(errors_id(id), f"{id}_error.jsonl", batch, now)
        said = batches.ended(batch, now, output, errors)
        await self._store.save(said)
        log.get().info("batch.ended", status=said.status, completed=said.completed, failed=said.failed)

    # ---- lines
    async def _lines(self, id: str, entries: tuple[Entry, ...]) -> None:
        done = await self._count(id)
        left = iter([entry for entry in entries if entry.custom_id not in done])
        async with asyncio.TaskGroup() as tasks:
            for _ in range(LINES_AT_ONCE):
                tasks.create_task(self._some(id, left))

    async def _some(self, id: str, left: Iterator[Entry]) -> None:
        for entry in left:
            result = await self._answer(self._now(id), entry)
            line = batch_lines.answered(_line_id(), entry.custom_id, result.status, result.request, result.body)
            fine = result.status < 400
            await self._keep(output_id(id) if fine else errors_id(id), line)
            batch = self._now(id)
            self._store.count(batches.counted(batch, batch.completed + fine, batch.failed + (not fine)))

    async def _keep(self, file: str, line: bytes) -> None:
        """Write a result down, however long that takes: it is not to be computed twice."""
        while True:
            try:
                return await self._store.append(file, line)
            except OSError as error:
                log.get().error("batch.not_written", reason=str(error))
                await asyncio.sleep(DISK_WAIT)

    async def _answer(self, batch: Batch, entry: Entry) -> Result:
        """Tries until it is answered or refused for good."""
        wait = FIRST_WAIT
        while True:
            request = f"req_{uuid4().hex}"
            try:
                return Result(200, request, await self._generated(batch, entry, request))
            except ApplianceError as raised:
                error = raised
            except Exception:  # noqa: BLE001 - the request edge: a bug met by one line is that line's result
                log.get().exception("request.bug", request=request)
                error = ApplianceError(f"an internal error; the server's log has it under {request}")
            if not _passes(error):
                return Result(error.status, request, shape_of(batch.endpoint, {})(error, request))
            log.get().info("batch.waits", custom_id=entry.custom_id, reason=error.message)
            await asyncio.sleep(min(LONGEST_WAIT, max(wait, error.retry_after or 0.0)))
            wait = min(LONGEST_WAIT, wait * 2)

    async def _generated(self, batch: Batch, entry: Entry, request: str) -> bytes:
        body = await self._body(batch, entry)
        deployment = self.context.running.deployment
        key = deployment.security.keys.get(batch.key) if batch.key else None
        if batch.key and key is None:
            raise InvalidKey(f"the key `{batch.key}` this batch came with is not one of this server's any more")
        with (
            tallied(self.context, batch.endpoint) as tally,
            self.context.door.entered(key) if key else nullcontext(self.context.door.keyless()) as passage,
        ):
            caller = Caller(request, batch.endpoint, key, passage, background=True)
            run = await begin(caller, self.context, ADAPTERS[batch.endpoint], body, time.perf_counter())
            tally.model = run.counted_as
            if run.asked.stream:
                raise BadRequest("`stream` must be false: the answer is a line of a file", param="stream")
            with log.bound(request=request, model=run.model):
                async with self._row(run.model, run.target.model.concurrency):
                    answer = await whole(run)
            tally.status = 200
            return answer

    async def _body(self, batch: Batch, entry: Entry) -> bytes:
        try:
            line = batch_lines.read_line(await self._store.line(batch, entry), batch.endpoint)
        except OSError as error:
            raise ApplianceError(f"the input file cannot be read any more: {error.strerror}") from error
        if not isinstance(line, Line):
            raise ApplianceError("the input file has changed since the batch was begun")
        return bytes(line.body)

    def _row(self, model: str, rows: int) -> asyncio.Semaphore:
        """One row of every model is left to those who wait, unless it is the only one."""
        return self._rows.setdefault((model, rows), asyncio.Semaphore(max(1, rows - 1)))


def _passes(error: ApplianceError) -> bool:
    """Whether it may be better later."""
    match error:
        case LoadFailed(permanent=permanent) | SourceError(permanent=permanent):
            return not permanent
        case _:
            return isinstance(error, Overloaded | PeerFailed | RateLimited | Unavailable)


def _line_id() -> str:
    return f"batch_req_{uuid4().hex}"


def _time() -> int:
    return math.floor(time.time())
