"""One request from lease to last event: survives the death of its engine and counts to n.

    events = generate(supervisor, model, compose, n=2, deadlines=Deadlines.of(deployment.server))
    async with contextlib.aclosing(events):
        async for index, event in events: ...

Leaving early, by closing or by cancellation, stops the work in the engine.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Self

import msgspec

from appliance import log
from appliance.config.deployment import ModelSpec, ServerSettings
from appliance.control.stream import Piece
from appliance.control.supervisor import Lease, Supervisor
from appliance.errors import EngineDied, TimedOut, revive
from appliance.vocab.event import Event, Failed, Finished, Started
from appliance.vocab.spec import Submission

Compose = Callable[[Lease], Submission]
"""Builds the submission once the first lease is held, so that it follows the model as it is then.

Its `id` is replaced, its seed is that of the first answer. It may raise what the request deserves.
"""

BARREN_DEATHS = 2
"""Engine deaths in a row, without a token of this request in between, that end it."""
MAX_DEATHS = 8
_SEEDS = 2**63

_log = log.get()

Indexed = tuple[int, Event]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds until the first content, of silence between events after it, and for the whole request."""

    first_token: float
    idle: float
    request: float

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        return cls(settings.first_token_timeout, settings.idle_timeout, settings.request_timeout)


async def generate(
    supervisor: Supervisor,
    model: ModelSpec,
    compose: Compose | tuple[Compose, ...],
    *,
    n: int = 1,
    deadlines: Deadlines,
) -> AsyncGenerator[Indexed, None]:
    """Yield (index, event) of `n` answers drawn with seeds seed, seed+1, …: one Started, deltas, one Finished each.
    Several prompts get `n` answers each; the index is that of the prompt times n plus that of the answer.

    Raises what `Supervisor.acquire` raises, the error an engine reported, TimedOut past a deadline, and EngineDied
    when the engine keeps dying on this request.
    """
    prompts = compose if isinstance(compose, tuple) else (compose,)
    answers = [
        _Answer(supervisor, model, prompt, at * n + sample, sample)
        for at, prompt in enumerate(prompts)
        for sample in range(n)
    ]
    events = answers[0].indexed() if len(answers) == 1 else _merge(answers)
    async with aclosing(_timed(events, deadlines)) as timed:
        async for item in timed:
            yield item


async def _timed(events: AsyncGenerator[Indexed, None], deadlines: Deadlines) -> AsyncGenerator[Indexed, None]:
    """The events as long as they come in time; what the reader takes to read them is not held against the engine."""
    now = asyncio.get_running_loop().time
    last = (now() + deadlines.request, "request_timeout", deadlines.request)
    first = (now() + deadlines.first_token, "first_token_timeout", deadlines.first_token)
    content = False
    async with aclosing(events):
        while True:
            silence = (now() + deadlines.idle, "idle_timeout", deadlines.idle)
            until, setting, seconds = min(last, silence if content else first)
            try:
                async with asyncio.timeout_at(until if until < math.inf else None):
                    item = await anext(events, None)
            except TimeoutError:
                raise TimedOut(f"the generation passed server.{setting} of {seconds:g} s") from None
            if item is None:
                return
            content = content or not isinstance(item[1], Started)
            yield item


@dataclass(slots=True)
class _Answer:
    """One of the answers, the `sample`th of its prompt: what is known of it whatever happens to engines."""

    supervisor: Supervisor
    model: ModelSpec
    compose: Compose
    index: int
    sample: int
    submission: Submission | None = None
    emitted: list[int] = field(default_factory=list)
    started: bool = False
    finished: bool = False
    deaths: int = 0
    barren: int = 0

    async def indexed(self) -> AsyncGenerator[Indexed, None]:
        while not self.finished:
            before = len(self.emitted)
            try:
                async with self.supervisor.acquire(self.model) as lease:
                    stream = lease.handle.generate(self._next(lease))
                    async with aclosing(stream):
                        async for piece in stream:
                            for event in self._take(piece):
                                yield self.index, event
            except EngineDied as death:
                self._survive(death, len(self.emitted) > before)

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
        for event in piece.events:
            match event:
                case Started():
                    if not self.started:
                        self.started = True
                        yield event
                case Failed(code, message, param):
                    raise revive(code, message, param)
                case Finished():
                    self.finished = True
                    yield event
                case _:
                    yield event

    def _survive(self, death: EngineDied, progressed: bool) -> None:
        self.deaths += 1
        self.barren = 1 if progressed else self.barren + 1
        if self.barren >= BARREN_DEATHS or self.deaths >= MAX_DEATHS:
            raise death
        _log.warning("generation.resumed", model=self.model.name, tokens=len(self.emitted), deaths=self.deaths)


async def _merge(answers: list[_Answer]) -> AsyncGenerator[Indexed, None]:
    """Events of all answers as they come; the first error ends all of them."""
    queue: asyncio.Queue[Indexed | BaseException] = asyncio.Queue(maxsize=len(answers))

    async def produce(answer: _Answer) -> None:
        try:
            async with aclosing(answer.indexed()) as events:
                async for item in events:
                    await queue.put(item)
        except Exception as error:  # noqa: BLE001 - carried to the request's own task and raised there
            await queue.put(error)

    tasks = [asyncio.create_task(produce(answer), name=f"answer {answer.index}") for answer in answers]
    try:
        left = len(answers)
        while left:
            item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            left -= isinstance(item[1], Finished)
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
