"""The events of one request as long as they come in time, those of several answers as they come."""

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol, Self

from appliance.config.deployment import ServerSettings
from appliance.errors import TimedOut
from appliance.vocab.event import Event, Finished, Started

Indexed = tuple[int, Event]


class Answering(Protocol):
    """One of a request's answers."""

    @property
    def index(self) -> int: ...

    def indexed(self) -> AsyncGenerator[Indexed, None]:
        """Its events, each with its index."""
        ...


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds until the first content, of silence between events after it, and for the whole request."""

    first_token: float
    idle: float
    request: float

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        return cls(settings.first_token_timeout, settings.idle_timeout, settings.request_timeout)


async def in_time(
    answers: Sequence[Answering], deadlines: Deadlines, clock: "Clock"
) -> AsyncGenerator[Indexed, None]:
    """The events of all answers. Raises TimedOut past a deadline, and what any of them raises: it ends all."""
    events = answers[0].indexed() if len(answers) == 1 else _together(answers)
    async with aclosing(_timed(events, deadlines, clock)) as timed:
        async for item in timed:
            yield item


@dataclass(slots=True)
class Clock:
    """What bounds the wait for the next event. It stops while answers get over the death of an engine: the loads and
    the turns that takes are nobody's silence. Only the deadline of the whole request goes on.
    """

    timeout: asyncio.Timeout | None = None
    recovering: int = 0
    last: float = math.inf
    seconds: float = math.inf

    def limit(self, until: float, seconds: float, last: float) -> asyncio.Timeout:
        self.seconds, self.last = seconds, last
        self.timeout = asyncio.timeout_at(_finite(last if self.recovering else until))
        return self.timeout

    def stop(self) -> None:
        self.recovering += 1
        self._reschedule(self.last)

    def start(self) -> None:
        self.recovering -= 1
        if not self.recovering:
            self._reschedule(min(self.last, asyncio.get_running_loop().time() + self.seconds))

    def _reschedule(self, at: float) -> None:
        # Between two events nothing is bounded, and one that has passed cannot be moved.
        if self.timeout is not None and not self.timeout.expired():
            with suppress(RuntimeError):
                self.timeout.reschedule(_finite(at))


def _finite(at: float) -> float | None:
    return at if at < math.inf else None


async def _timed(
    events: AsyncGenerator[Indexed, None], deadlines: Deadlines, clock: Clock
) -> AsyncGenerator[Indexed, None]:
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
                async with clock.limit(until, seconds, last[0]):
                    item = await anext(events, None)
            except TimeoutError:
                raise TimedOut(f"the generation passed server.{setting} of {seconds:g} s") from None
            if item is None:
                return
            content = content or not isinstance(item[1], Started)
            yield item


async def _together(answers: Sequence[Answering]) -> AsyncGenerator[Indexed, None]:
    """Events of all answers as they come; the first error ends all of them."""
    queue: asyncio.Queue[Indexed | BaseException] = asyncio.Queue(maxsize=len(answers))

    async def produce(answer: Answering) -> None:
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
