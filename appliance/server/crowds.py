"""How many requests may wait, and whose: beyond that one is told at once when to come back, before its body is read.

No key keeps the others out: who comes to a full queue takes the place of a request of a lower class, or of the key
with the most places where it has fewer itself. A request waits from its arrival until its generation begins.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from appliance.config.access import Key
from appliance.control.keys import priority
from appliance.control.limits import retry_after
from appliance.errors import Overloaded
from appliance.server.context import Context
from appliance.server.in_flight import Entry


@contextmanager
def in_line(context: Context, key: Key | None) -> Iterator[None]:
    """A place among those that wait for requests that are not in flight yet. Raises Overloaded where as many as
    `memory.queue.max` wait and none of them makes way.
    """
    name = key.name if key else None
    _find_place(context, name, priority(key, 0))
    context.arriving[name] += 1
    try:
        yield
    finally:
        context.arriving[name] -= 1


def _find_place(context: Context, key: str | None, rank: int) -> None:
    most = context.running.deployment.memory.queue.max
    arriving = context.arriving.total()
    if len(context.in_flight) + arriving < most:
        return
    waiting = [entry for entry in context.in_flight if entry.waits]
    if (total := len(waiting) + arriving) < most:
        return
    wait = retry_after(total, context.begun, time.monotonic())
    full = f"{total} requests are waiting, the most that may (memory.queue.max)"
    leaves = makes_way(waiting, context.arriving, key, rank)
    if leaves is None:
        raise Overloaded(full, retry_after=wait)
    context.in_flight.displace(leaves, Overloaded(f"{full}, and this one made way for another", retry_after=wait))


def makes_way(
    waiting: Iterable[Entry], arriving: Mapping[str | None, int], key: str | None, rank: int
) -> Entry | None:
    """Of those that wait, oldest first, the one that makes way for a request of this key and rank, if one does."""
    entries = list(waiting)
    places = Counter(entry.key for entry in entries) + Counter(arriving)
    worst = max(enumerate(entries), key=lambda at: (-at[1].rank, places[at[1].key], at[0]), default=(0, None))[1]
    if worst is None or worst.rank > rank:
        return None
    lower, greedier = worst.rank < rank, places[worst.key] > places[key] + 1
    return worst if lower or greedier else None
