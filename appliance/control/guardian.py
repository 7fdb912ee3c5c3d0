"""When the process on whose behalf this one runs is gone."""

import asyncio
import os
import sys

POLL_SECONDS = 1.0
"""How often it is looked for where the system does not tell."""


async def gone(pid: int) -> None:
    """Return when there is no process of this number, or it has ended."""
    if sys.platform != "linux":
        while _there(pid):
            await asyncio.sleep(POLL_SECONDS)
        return
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        # It can be read from the moment the process has ended, reaped or not.
        loop.add_reader(watched, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
