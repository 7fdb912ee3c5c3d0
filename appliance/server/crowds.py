"""How many requests may wait: beyond that the next one is told at once when to come back."""

import time

from appliance.control.limits import retry_after
from appliance.errors import Overloaded
from appliance.server.context import Context


def refuse_crowds(context: Context) -> None:
    """Raises Overloaded where as many generations as `memory.queue.max` have not begun yet."""
    most = context.running.deployment.memory.queue.max
    if len(context.in_flight) < most:
        return
    waiting = sum(entry.urgent and entry.prompt_tokens is None for entry in context.in_flight)
    if waiting >= most:
        wait = retry_after(waiting, context.begun, time.monotonic())
        raise Overloaded(f"{waiting} requests are waiting, the most that may (memory.queue.max)", retry_after=wait)
