"""One request from lease to last event: survives the death of its engine and counts to n.

    events = generate(supervisor, model, compose, n=2, deadlines=Deadlines.of(deployment.server))
    async with contextlib.aclosing(events):
        async for index, event in events: ...

Leaving early, by closing or by cancellation, stops the work in the engine.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from appliance import log
from appliance.config.deployment import ModelSpec
from appliance.control.lease import Lease
from appliance.control.stream import Piece
from appliance.control.supervisor import Supervisor
from appliance.control.suspicion import Death, Suspicion
from appliance.control.timing import Clock, Indexed, in_time
from appliance.control.timing import Deadlines as Deadlines
from appliance.errors import EngineDied, revive
from appliance.vocab.event import Event, Failed, Finished, Started
from appliance.vocab.spec import Submission

Compose = Callable[[Lease], Submission]
"""Builds the submission once the first lease is held, so that it follows the model as it is then.

Its `id` is replaced, its seed is that of the first answer. It may raise what the request deserves.
"""

_SEEDS = 2**63

_log = log.get()


async def generate(
    supervisor: Supervisor,
    model: ModelSpec,
    compose: Compose | tuple[Compose, ...],
    *,
    n: int = 1,
    deadlines: Deadlines,
    keep: float | None = None,
    hasty: bool = False,
    wrote: Callable[[int, int], None] = lambda index, tokens: None,
) -> AsyncGenerator[Indexed, None]:
    """Yield (index, event) of `n` answers drawn with seeds seed, seed+1, …: one Started, deltas, one Finished each.

    Several prompts get `n` answers each; the index is that of the prompt times n plus that of the answer. The model
    stays in memory for `keep` seconds afterwards, where that is given; `hasty` is passed to `Supervisor.acquire`.
    `wrote` is called with an index and how many tokens came: events do not say it, since those of a slow reader are
    merged.

    Raises what `Supervisor.acquire` raises, the error an engine reported, TimedOut past a deadline, and EngineDied
    when engines die of this request even when it is alone.
    """
    clock = Clock()
    prompts = compose if isinstance(compose, tuple) else (compose,)
    answers = [
        _Answer(supervisor, model, prompt, clock, at * n + sample, sample, keep, hasty, wrote)
        for at, prompt in enumerate(prompts)
        for sample in range(n)
    ]
    async with aclosing(in_time(answers, deadlines, clock)) as items:
        async for item in items:
            yield item


@dataclass(slots=True)
class _Answer:
    """One of the answers, the `sample`th of its prompt: what is known of it whatever happens to engines."""

    supervisor: Supervisor
    model: ModelSpec
    compose: Compose
    clock: Clock
    index: int
    sample: int
    keep: float | None
    hasty: bool
    wrote: Callable[[int, int], None]
    submission: Submission | None = None
    emitted: list[int] = field(default_factory=list)
    begun: Started | None = None
    finished: bool = False
    recovering: bool = False
    suspicion: Suspicion = Suspicion()

    async def indexed(self) -> AsyncGenerator[Indexed, None]:
        resumed = False
        try:
            while not self.finished:
                alone = self.suspicion.suspect
                leasing = self.supervisor.acquire(
                    self.model, alone=alone, resumed=resumed, keep=self.keep, hasty=self.hasty and not resumed
                )
                async with (
                    leasing as lease,
                    aclosing(self._run(lease, alone)) as events,
                ):
                    async for event in events:
                        yield self.index, event
                resumed = True
        finally:
            self._recover(False)

    async def _run(self, lease: Lease, alone: bool) -> AsyncGenerator[Event, None]:
        """The events until the end of the answer, of the engine, or of the probation if others wait for theirs."""
        had, submitted = len(self.emitted), False
        try:
            stream = lease.handle.generate(self._next(lease))
            submitted = True
            async with aclosing(stream):
                async for piece in stream:
                    self._recover(False)
                    for event in self._take(piece):
                        yield event
                    if alone and len(self.emitted) - had >= self.suspicion.probation:
                        alone, self.suspicion = False, self.suspicion.clear()
                        if self.supervisor.clear(lease) and not self.finished:
                            self._recover(True)
                            return
        except EngineDied as death:
            self._recover(True)
            if not submitted:
                await lease.handle.ended()
            else:
                await self._survive(death, lease, len(self.emitted) - had)

    def _next(self, lease: Lease) -> Submission:
        if self.submission is None:
            first = self.compose(lease)
            seed = (first.sampling.seed + self.sample) % _SEEDS
            sampling = msgspec.structs.replace(first.sampling, seed=seed)
            self.submission = msgspec.structs.replace(first, sampling=sampling)
        return msgspec.structs.replace(
            self.submission, id=self.supervisor.next_id(), emitted=(*self.submission.emitted, *self.emitted)
        )

    def _take(self, piece: Piece) -> Iterator[Event]:
        """What the client has not been told yet. Raises the error the engine reported."""
        self.emitted += piece.tokens
        if piece.tokens:
            self.wrote(self.index, len(piece.tokens))
        for event in piece.events:
            match event:
                case Started():
                    if self.begun is None:
                        self.begun = event
                        yield event
                case Failed(code, message, param):
                    raise revive(code, message, param)
                case Finished():
                    self.finished = True
                    yield self._as_begun(event)
                case _:
                    yield event

    def _as_begun(self, end: Finished) -> Finished:
        """What of the prompt was cached is what the client was told first: later engines read it on our account."""
        if self.begun is None:
            return end
        usage = msgspec.structs.replace(end.usage, cached_tokens=self.begun.cached_tokens)
        return msgspec.structs.replace(end, usage=usage)

    def _recover(self, recovering: bool) -> None:
        if recovering != self.recovering:
            self.recovering = recovering
            if recovering:
                self.clock.stop()
            else:
                self.clock.start()

    async def _survive(self, death: EngineDied, lease: Lease, tokens: int) -> None:
        alone = lease.alone()
        end = await lease.handle.ended()
        self.suspicion = self.suspicion.after(Death(end.blamed, alone, tokens))
        if self.suspicion.guilty:
            raise EngineDied(f"{death.message}, twice with this request alone") from death
        _log.warning("generation.resumed", model=self.model.name, tokens=len(self.emitted), exit=end.code,
                     suspect=self.suspicion.suspect)  # fmt: skip
