"""How many requests may wait, and whose; the next is told at once when to come back, before its body is read.

No key keeps the others out: who comes to a full queue takes the place of a request of a lower class, or of the key
with the most places where it has fewer itself; where their bodies are too large together, it is bytes that count. A
request waits from its arrival until its generation begins.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from appliance.config.access import Key
from appliance.config.units import show_size
from appliance.control.keys import priority
from appliance.control.limits import retry_after
from appliance.errors import Overloaded
from appliance.server.context import Context
from appliance.server.in_flight import Entry


@contextmanager
def in_line(context: Context, key: Key | None, announced: str | None) -> Iterator[None]:
    """A place among those that wait for requests that are not in flight yet, with the length of the body as it was
    announced; one that says nothing of that may become as large as any. Raises Overloaded where as many requests as
    `memory.queue.max` wait or their bodies hold `memory.queue.max_bytes`, and none of them makes way.
    """
    name = key.name if key else None
    limit = context.running.deployment.server.max_body
    size = min(int(announced), limit) if announced is not None and announced.isdecimal() else limit
    _find_place(context, Newcomer(name, priority(key, 0), size))
    context.arriving[name] += 1
    context.arriving_bytes[name] += size
    try:
        yield
    finally:
        context.arriving[name] -= 1
        context.arriving_bytes[name] -= size


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who wants a place: the name of its key, its rank, and the bytes of its body."""

    key: str | None
    rank: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class Measure:
    """What there may be only so much of; `arriving` is by key what those take that are not in flight yet."""

    most: int
    of: Callable[[Entry | Newcomer], int] = lambda who: 1
    arriving: Mapping[str | None, int] = field(default_factory=dict)


def _find_place(context: Context, who: Newcomer) -> None:
    terms = context.running.deployment.memory.queue
    count = len(context.in_flight) + context.arriving.total()
    if count < terms.max and (count + 1) * context.running.deployment.server.max_body <= terms.max_bytes:
        return
    waiting = [entry for entry in context.in_flight if entry.waits]
    total = len(waiting) + context.arriving.total()
    by_count = Measure(terms.max, arriving=context.arriving)
    by_bytes = Measure(terms.max_bytes, lambda who: who.size, context.arriving_bytes)
    full = (
        (by_count, f"{total} requests are waiting, the most that may (memory.queue.max)"),
        (
            by_bytes,
            f"with this one, more than {show_size(terms.max_bytes)} would wait (memory.queue.max_bytes)",
        ),
    )
    leaving: list[tuple[Entry, str]] = []
    for measure, words in full:
        leaves = room(waiting, who, measure)
        if leaves is None:
            raise Overloaded(words, retry_after=retry_after(total, context.begun, time.monotonic()))
        leaving += [(entry, words) for entry in leaves]
        waiting = [entry for entry in waiting if all(entry is not other for other in leaves)]
    for entry, words in leaving:
        wait = retry_after(total, context.begun, time.monotonic())
        context.in_flight.displace(entry, Overloaded(f"{words}, and this one made way for another", retry_after=wait))


def room(waiting: Iterable[Entry], who: Newcomer, measure: Measure) -> list[Entry] | None:
    """Who of those that wait, oldest first, has to go so that there is room for one more; None where it is that one.
    Whoever would wait alone has room.
    """
    left, leaves = list(waiting), list[Entry]()
    while (held := sum(map(measure.of, left)) + sum(measure.arriving.values())) and held + measure.of(
        who
    ) > measure.most:
        goes = makes_way(left, who, measure)
        if goes is None:
            return None
        leaves.append(goes)
        left = [entry for entry in left if entry is not goes]
    return leaves


def makes_way(waiting: Iterable[Entry], who: Newcomer, measure: Measure) -> Entry | None:
    """Of those that wait, oldest first, the one that makes way for this one, if one does."""
    entries = list(waiting)
    places = Counter(measure.arriving)
    for entry in entries:
        places[entry.key] += measure.of(entry)
    worst = max(enumerate(entries), key=lambda at: (-at[1].rank, places[at[1].key], at[0]), default=(0, None))[1]
    if worst is None or worst.rank > who.rank:
        return None
    greedier = places[worst.key] - measure.of(worst) >= places[who.key] + measure.of(who)
    return worst if worst.rank < who.rank or greedier else None
