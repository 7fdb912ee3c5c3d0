"""The step loop: drain, plan, launch, wait for the step before, commit, emit.

The next step is launched before the previous one's tokens are turned into text, so the device never waits for
Python. This is the hot path: per token one pipeline step, per step one frame.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from appliance import log
from appliance.engine.backend import Backend, Batch, Sampled, Snapshot, Step
from appliance.engine.disk_tier import DiskTier
from appliance.engine.inbox import Arrival, Cancellation, Configuration, Farewell, Inbox, Message
from appliance.engine.prefix_cache import PINNED
from appliance.engine.reuse import reuse_of
from appliance.engine.scheduler import Plan, Scheduler
from appliance.engine.sequence import Sequence
from appliance.errors import EngineFault
from appliance.vocab.event import Event, Failed, Started
from appliance.vocab.gauges import Gauges
from appliance.vocab.spec import ChatPrompt, EngineSettings
from appliance.wire.frames import Events, Pong, SequenceEvents


@dataclass(frozen=True, slots=True)
class _Flight:
    """A launched step and the snapshots taken with it, which count once it has landed."""

    plan: Plan
    step: Step
    snapshots: list[tuple[int, int, Snapshot | None]]


def _store(settings: EngineSettings) -> tuple[object, ...]:
    """What makes a KV store another one."""
    return settings.kv, settings.stored


def _without(plan: Plan, ids: Collection[int]) -> Plan:
    """The same step for all others."""
    batch = plan.batch
    places = [place for place, id in enumerate(batch.decode) if id not in ids]
    left: Batch = replace(
        batch,
        decode=tuple(batch.decode[place] for place in places),
        chunks=tuple(chunk for chunk in batch.chunks if chunk.sequence not in ids),
        drafts=tuple(draft for draft in batch.drafts if draft.sequence not in ids),
        groups=tuple(batch.groups[place] for place in places) if batch.groups else (),
    )
    return replace(
        plan,
        opened=tuple(opening for opening in plan.opened if opening.id not in ids),
        started=tuple(begun for begun in plan.started if begun.id not in ids),
        batch=left,
        snapshots=tuple(wanted for wanted in plan.snapshots if wanted[0] not in ids),
    )


class Loop:
    """Runs on the thread that loaded the backend. `emit` must not block."""

    def __init__(
        self,
        backend: Backend,
        scheduler: Scheduler,
        emit: Callable[[Events], None],
        tier: DiskTier | None = None,
        warm: Callable[[tuple[ChatPrompt, ...]], None] = lambda prompts: None,
    ) -> None:
        self._backend, self._scheduler, self._emit = backend, scheduler, emit
        self._tier = tier or DiskTier()
        self._flight: _Flight | None = None
        self._store = _store(scheduler.settings)
        self._warm = warm
        self._warmed: tuple[ChatPrompt, ...] = ()
        self._warmed_again = False
        """Since one of these failed, and no request has since."""
        self._rebuild: EngineSettings | None = None
        """Settings that ask for another KV store, until nothing runs any more."""
        self._steps = self._kv_bytes = self._adapter_bytes = 0
        self.idle = True
        """Nothing is on its way and nothing can be started: only a message changes that."""
        self._keep_warm(scheduler.settings.warm)

    def run(self, inbox: Inbox) -> NoReturn:
        while True:
            self.turn(inbox.drain(block=self.idle))

    def turn(self, messages: Iterable[Message]) -> None:
        """Take what came, launch the next step, then land the one before it."""
        self._take(messages)
        if self._rebuild is not None and not self._scheduler.running and self._flight is None:
            self._rebuild_store(self._rebuild)
        self._scheduler.prefixes.pass_to(time.monotonic(), self._scheduler.settings.prefix_ttl)
        plan = self._scheduler.next_batch()
        able = self._open(plan)
        launched = self._launch(able)
        landed, self._flight = self._flight, launched if isinstance(launched, _Flight) else None
        if landed is not None:
            self._land(landed)
        match launched:
            case _Flight(step=step):
                step.begin()
            case EngineFault():  # only now: what was computed before it has reached its clients
                self._fault(able.sequences, launched)
        self._kv_bytes, self._adapter_bytes = self._backend.held_bytes(), self._backend.adapter_bytes()
        self.idle = not plan and landed is None

    def pong(self, nonce: int) -> Pong:
        """What it holds now; may be asked from any thread."""
        rows = self._scheduler
        waiting = rows.waiting + self._tier.waiting
        held = Gauges(rows.running, waiting, self._kv_bytes, rows.prefixes.bytes, self._adapter_bytes)
        return Pong(nonce, self._steps, held)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            match message:
                case Arrival(sequence):
                    if not self._tier.fetch(sequence, self._scheduler.prefixes):
                        self._scheduler.submit(sequence)
                case Cancellation(id):
                    if (cancelled := self._forget(id) or self._tier.withdraw(id)) is not None:
                        self._say(id, *cancelled.pipeline.cancel())
                case Configuration(settings):
                    self._configure(settings)
                case Farewell():
                    self._tier.hurry()
                case news:
                    self._submit(self._tier.take(news, self._scheduler.prefixes))

    def _configure(self, settings: EngineSettings) -> None:
        if settings.log is not None and settings.log != self._scheduler.settings.log:
            log.configure(*settings.log)
        self._backend.keep_adapters(settings.adapters)
        self._scheduler.configure(settings)
        self._rebuild = settings if _store(settings) != self._store else None
        self._scheduler.held = self._rebuild is not None
        if self._rebuild is None:
            self._submit(self._tier.configure(settings.disk))
            self._keep_warm(settings.warm)

    def _keep_warm(self, prompts: tuple[ChatPrompt, ...]) -> None:
        if prompts != self._warmed:
            self._scheduler.prefixes.clear(PINNED)
            self._warmed, self._warmed_again = prompts, False
            self._warm(prompts)

    def _rebuild_store(self, settings: EngineSettings) -> None:
        """Take up another form of keys and values; no row is left that has the old one, and no prefix may stay."""
        self._submit(self._tier.configure(None))
        self._scheduler.prefixes.clear()
        self._scheduler.configure(settings, self._backend.configure(settings))
        self._store, self._rebuild, self._scheduler.held = _store(settings), None, False
        log.get().info("engine.store_rebuilt", kv=settings.kv, stored=settings.stored)
        self._submit(self._tier.configure(settings.disk))
        self._warmed = ()
        self._keep_warm(settings.warm)

    def _submit(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self._scheduler.submit(sequence)

    def _open(self, plan: Plan) -> Plan:
        """Close and open what the plan says. One that cannot begin fails alone, and is in the plan no more."""
        for id in plan.closed:
            self._backend.close(id)
        unable: set[int] = set()
        for opening in plan.opened:
            try:
                self._backend.open(opening)
            except EngineFault as fault:
                unable.add(opening.id)
                self._fail({opening.id}, fault)
        return _without(plan, unable) if unable else plan

    def _launch(self, plan: Plan) -> _Flight | EngineFault | None:
        for begun in plan.started:
            pipeline = begun.pipeline
            reuse = reuse_of(begun, self._scheduler.prefixes.enabled)
            self._say(begun.id, Started(pipeline.prompt_tokens, pipeline.cached_tokens, reuse))
        if not plan.batch:
            return None
        try:
            step = self._backend.launch(plan.batch)
        except EngineFault as fault:
            return fault
        return _Flight(plan, step, [(id, length, self._snapshot(id, length)) for id, length in plan.snapshots])

    def _snapshot(self, id: int, length: int) -> Snapshot | None:
        """None also where the device failed: an answer does not need what is kept of it for others."""
        try:
            return self._backend.snapshot(id, length)
        except EngineFault as fault:
            log.get().warning("engine.snapshot_failed", sequence=id, length=length, reason=fault.message)
            return None

    def _land(self, flight: _Flight) -> None:
        try:
            result = flight.step.wait()
        except EngineFault as fault:
            self._fault(flight.plan.sequences, fault)
            return
        self._steps += 1
        sampled = self._scheduler.commit(flight.plan.batch, result)
        parts, ended, broken = self._read(sampled, result.failed)
        if parts:
            self._emit(Events(self._steps, tuple(parts)))
        for id, reason in broken.items():
            self._fail({id}, EngineFault(f"this answer cannot go on: {reason}"))
        for id, length, snapshot in flight.snapshots:
            self._scheduler.keep(id, length, snapshot)
        for sequence in ended:
            self._remember(sequence)
        for sequence in ended:  # only now: a row that leaves moves those that stay
            self._forget(sequence.id)

    def _read(
        self, sampled: list[tuple[Sequence, Sampled]], failed: Mapping[int, str]
    ) -> tuple[list[SequenceEvents], list[Sequence], dict[int, str]]:
        """Feed each token to its sequence's pipeline: the events to send, the sequences that ended, and those that
        cannot go on, with the reason. The newest token of a sequence that `failed` is none.
        """
        parts: list[SequenceEvents] = []
        ended: list[Sequence] = []
        broken: dict[int, str] = {}
        newest = {sequence.id: place for place, (sequence, _) in enumerate(sampled)}
        for place, (sequence, token) in enumerate(sampled):
            if sequence.pipeline.finished:  # by a token before it that came with the same step
                sequence.known.pop()
                continue
            if sequence.id in broken:
                continue
            if sequence.id in failed and place == newest[sequence.id]:
                broken[sequence.id] = failed[sequence.id]
                self._disown(sequence)
                continue
            try:
                events = tuple(sequence.pipeline.feed(token))
            except Exception:  # noqa: BLE001 - the loop's edge: what reads one answer must not end the others
                log.get().exception("engine.answer_failed", sequence=sequence.id)
                broken[sequence.id] = "its text could not be read; the log says why"
                continue
            parts.append(SequenceEvents(sequence.id, (token.token,), events))
            if sequence.pipeline.finished:
                ended.append(sequence)
        return parts, ended, broken

    def _remember(self, sequence: Sequence) -> None:
        """Keep prompt and answer for the next turn. The last token was never an input."""
        length = sequence.prefill_end
        if sequence.decodes and length > 0 and not sequence.warms and self._scheduler.prefixes.enabled:
            self._scheduler.keep(sequence.id, length, self._snapshot(sequence.id, length))

    def _disown(self, sequence: Sequence) -> None:
        """Keep nothing that it computed, nor the prefix it began with: a NaN in there would fail every other prompt
        that begins like it.
        """
        began = max(1, sequence.found.length)
        # A prefix to keep warm that fails itself is begun anew once: what it does not share with others is its own.
        again = not sequence.warms or not self._warmed_again
        pinned_from = began if again else sequence.found.length + 1
        if sequence.namespace != PINNED:
            self._scheduler.prefixes.disown(sequence.known, began, sequence.namespace)
        pinned = self._scheduler.prefixes.disown(sequence.known, pinned_from, PINNED)
        self._submit(self._tier.disown(sequence, pinned_from))
        if again and (pinned or sequence.warms):
            log.get().warning("warm.again", prefixes=len(pinned), sequence=sequence.id)
            self._warmed_again = sequence.warms
            self._warm(self._warmed)

    def _fault(self, ids: Collection[int], fault: EngineFault) -> None:
        """The device failed. An answer that was alone fails; among several the engine cannot know which one is to
        blame, so it ends, and the server finds out by running them one at a time.
        """
        if len(ids) > 1:
            raise fault
        self._fail(ids, fault)

    def _fail(self, ids: Iterable[int], fault: EngineFault) -> None:
        log.get().error("engine.step_failed", sequences=sorted(ids), reason=fault.message)
        for id in ids:
            if self._forget(id) is not None:
                self._say(id, Failed(fault.code, fault.message))

    def _forget(self, id: int) -> Sequence | None:
        sequence = self._scheduler.remove(id)
        self._backend.close(id)
        return sequence

    def _say(self, id: int, *events: Event) -> None:
        self._emit(Events(self._steps, (SequenceEvents(id, (), events),)))
