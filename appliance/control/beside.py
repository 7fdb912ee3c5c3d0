"""How work of many milliseconds is done beside the event loop: in threads that give way, with no collector at work.

A full collection stops every thread, and is dearest just then: while a large file is read, everything about it lives.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SWITCH_SECONDS = 0.001
"""How long a busy thread may keep the event loop waiting; Python's own default is five times as long."""


def prefer_the_loop() -> None:
    """Set up this process, once what it needs is imported: threads give way soon, modules are not collected again."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()


async def beside(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `work` returns or raises, from a thread."""

    def uncollected() -> T:
        # Where several run at once the first one to end begins to collect again: that costs time, nothing else.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return work(*arguments, **named)
        finally:
            if collecting:
                gc.enable()

    return await asyncio.to_thread(uncollected)
