"""Sees to it that an engine works: one token before it is trusted, and progress for as long as it runs."""

import asyncio
import math
from collections.abc import Awaitable
from contextlib import aclosing

from appliance import log
from appliance.control.handle import EngineHandle
from appliance.control.watchdog import Bound, Progress
from appliance.errors import EngineDied, LoadFailed
from appliance.vocab.event import Failed
from appliance.vocab.request import Sampling, TextPrompt
from appliance.vocab.spec import Submission

_log = log.get()


async def probe(handle: EngineHandle, id: int, context: int, seconds: float) -> None:
    """Have one token generated before what worked until now is given up. Raises LoadFailed."""
    sampling = Sampling(max_tokens=1, temperature=0.0, seed=0)
    submission = Submission(id=id, prompt=TextPrompt(text="Hello"), sampling=sampling, context=context)
    limit = asyncio.timeout(seconds if seconds < math.inf else None)
    try:
        async with limit, aclosing(handle.generate(submission)) as stream:
            async for piece in stream:
                for event in piece.events:
                    if isinstance(event, Failed):
                        raise LoadFailed(f"it cannot generate: {event.message}", permanent=True)
    except EngineDied:
        raise LoadFailed("its engine died of the first token", permanent=True) from None
    except TimeoutError:
        raise LoadFailed("it did not generate a token within its load_timeout", permanent=True) from None


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
            pong.steps if pong else None, pong.running if pong else 0, asked - last, bound.interval
        )
        last = asked
        if progress.hung(bound, stall_target):
            _log.error("engine.hung", model=handle.model, pid=handle.pid, seconds=round(progress.stuck))
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
