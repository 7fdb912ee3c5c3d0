"""Sees to it that an engine works: tried out before it is trusted, and progress for as long as it runs."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from appliance import log
from appliance.control.handle import EngineHandle
from appliance.control.processor import worked
from appliance.control.watchdog import Bound, Progress, Signs
from appliance.errors import EngineDied, LoadFailed
from appliance.vocab.event import Failed
from appliance.vocab.request import Sampling, TextPrompt
from appliance.vocab.spec import Submission

_log = log.get()


@asynccontextmanager
async def attended(handle: EngineHandle, bound: Bound) -> AsyncIterator[None]:
    """See to it that an engine is lost if it shows no sign of life while it is loaded."""
    watching = asyncio.create_task(_attend(handle, bound), name="attend")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _attend(handle: EngineHandle, bound: Bound) -> None:
    now = asyncio.get_running_loop().time
    signs, last = Signs(), now()
    while not await _within(bound.interval, handle.disconnected()):
        asked = now()
        signs = signs.look(handle.heard, worked(handle.pid), asked - last, bound.interval)
        last = asked
        if signs.hung(bound):
            await _kill(handle, signs.still, loading=True)
        handle.nudge()


async def try_out(
    handle: EngineHandle, id: int, context: int, seconds: float, worse: Callable[[], Awaitable[tuple[str, ...]]]
) -> None:
    """Have one token generated, and find out what got `worse`, before what worked until now is given up.

    Raises LoadFailed.
    """
    sampling = Sampling(max_tokens=1, temperature=0.0, seed=0)
    submission = Submission(id=id, prompt=TextPrompt(text="Hello"), sampling=sampling, context=context)
    doing = "generate a token"
    try:
        async with asyncio.timeout(seconds if seconds < math.inf else None):
            await _generate(handle, submission)
            doing = "say whether its template and its dialects agree"
            found = await worse()
    except EngineDied:
        raise LoadFailed("its engine died of the first token", permanent=True) from None
    except TimeoutError:
        raise LoadFailed(f"it did not {doing} within its load_timeout", permanent=True) from None
    if found:
        raise LoadFailed("; ".join(found), permanent=True)


async def _generate(handle: EngineHandle, submission: Submission) -> None:
    async with aclosing(handle.generate(submission)) as stream:
        async for piece in stream:
            for event in piece.events:
                if isinstance(event, Failed):
                    raise LoadFailed(f"it cannot generate: {event.message}", permanent=True)


async def watch(handle: EngineHandle, bound: Bound, stall_target: float) -> None:
    """Wait until the engine is lost, and see to it that it is if it hangs."""
    now = asyncio.get_running_loop().time
    progress, last = Progress(), now()
    while not await _within(bound.interval, handle.disconnected()):
        asked = now()
        try:
            async with asyncio.timeout(bound.interval):
                pong = await handle.ping()
        except (TimeoutError, EngineDied):
            pong = None
        progress = progress.look(
            pong.steps if pong else None, pong.gauges.running if pong else 0, asked - last, bound.interval
        )
        last = asked
        if progress.hung(bound, stall_target):
            await _kill(handle, progress.stuck)


async def _kill(handle: EngineHandle, seconds: float, **more: bool) -> None:
    """Have an engine lost that has hung for so long."""
    _log.error("engine.hung", model=handle.model, pid=handle.pid, seconds=round(seconds), **more)
    handle.kill_hung()
    await handle.disconnected()


async def _within(seconds: float, event: Awaitable[None]) -> bool:
    """Whether it came within that time."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True
