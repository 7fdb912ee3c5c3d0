"""Whose turn in memory it is: who stays for now, who has to make way, who has waited too long. PURE.

A model serves everybody who comes while it is in memory, so requests are served in groups. It is not given up for
another one before `min_resident`, and serves nobody new once that other one has waited for `starve_after`.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from appliance.config.units import show_bytes, show_duration
from appliance.control import eviction, rollback
from appliance.control.eviction import Evict, Resident
from appliance.control.limits import LONGEST_RETRY
from appliance.control.limits import retry_after as pace
from appliance.control.residency import IN_MEMORY, Engine, EngineState, Registry, Waiter

LULL = 0.1
"""An engine nobody held for this part of `min_resident` is given up sooner: nobody seems to come."""


def residents(state: Registry, now: float) -> list[Resident]:
    """The engines in memory, as the plan for another one sees them."""
    return [
        Resident(
            fingerprint,
            engine.bytes,
            busy=bool(engine.leases) or engine.state is EngineState.LOADING,
            pinned=engine.pinned and not engine.retired,
            leaving=engine.state is EngineState.DRAINING and not rollback.standing_by(state, engine),
            idle_since=-math.inf if engine.retired else engine.idle_since,
            protected=now < stays_until(state, engine),
            model=engine.want.model,
        )
        for fingerprint, engine in state.engines.items()
        if engine.state in IN_MEMORY
    ]


def stays_until(state: Registry, engine: Engine) -> float:
    """Until when it is not given up for another one, idle as it may be."""
    least = state.terms.min_resident
    return min(engine.ready_at + least, engine.idle_since + least * LULL)


def decide(state: Registry, engine: Engine, beside: list[Resident]) -> eviction.Decision:
    """How this engine gets room beside those."""
    policy, fingerprint = state.terms.policy, engine.want.fingerprint
    return eviction.plan(engine.want.model, engine.bytes, beside, policy, state.capacity, policy.rivals(fingerprint))


def making_way(state: Registry, now: float) -> frozenset[str]:
    """The engines that begin nothing new, so that the model that has waited longest gets its turn."""
    waiting = [engine for engine in state.engines.values() if waits_for_memory(engine)]
    if not waiting:
        return frozenset()
    first = min(waiting, key=lambda engine: engine.waiters[0].id)
    if now < first.waiters[0].since + state.terms.starve_after:
        return frozenset()
    willing = [
        replace(r, busy=state.engines[r.fingerprint].state is EngineState.LOADING, protected=False)
        for r in residents(state, now)
    ]
    match decide(state, first, willing):
        case Evict(victims):
            return frozenset(victims)
    return frozenset()


def waits_for_memory(engine: Engine) -> bool:
    """Its files are here, nothing has failed, and still it is not being loaded."""
    idle = engine.state is EngineState.COLD and engine.want.present and not engine.fetching and not engine.retired
    return idle and engine.failure is None and bool(engine.waiters)


def weary(state: Registry, engine: Engine, now: float) -> tuple[Waiter, ...]:
    """Those who have waited for memory as long as anybody may; what has begun goes on waiting."""
    if not waits_for_memory(engine):
        return ()
    return tuple(w for w in engine.waiters if not w.resumed and now >= w.since + state.terms.max_wait)


def _pressing(state: Registry, now: float) -> bool:
    """Whether memory is wanted that somebody keeps for the moment: by a load, or because it has become too much."""
    cold = (engine for engine in state.engines.values() if engine.state is EngineState.COLD and not engine.retired)
    if any(engine.waiters or engine.wanted for engine in cold):
        return True
    beside = [replace(resident, protected=False) for resident in residents(state, now)]
    return bool(eviction.shrink(beside, state.terms.policy, state.capacity))


def why_not(state: Registry, engine: Engine, now: float) -> str:
    """The arithmetic for who has waited as long as anybody may."""
    beside, policy = residents(state, now), state.terms.policy
    held, busy = sum(resident.bytes for resident in beside), sum(resident.busy for resident in beside)
    limit = "" if policy.max_loaded is None else f", and at most {policy.max_loaded} of them at a time"
    return (
        f"{engine.want.model} got no memory within memory.queue.max_wait ({show_duration(state.terms.max_wait)}): it"
        f" needs {show_bytes(engine.bytes)}; models may take {show_bytes(policy.room)}{limit}, and"
        f" those in memory hold {show_bytes(held)}, {busy} of {len(beside)} at work: come back later, or raise"
        " memory.budget or memory.queue.max_wait"
    )


def retry_after(state: Registry, engine: Engine, now: float) -> float:
    """Seconds until it may have its turn, by how many wait before it and how often models were loaded lately; where
    that was not measured, as long as it has waited in vain.
    """
    turns = sorted(each.ready_at for each in state.engines.values() if each.ready_at > -math.inf)
    if len(turns) < 2:
        return min(max(1.0, state.terms.max_wait), LONGEST_RETRY)
    before = (each for each in state.engines.values() if waits_for_memory(each))
    return pace(1 + sum(each.waiters[0].id < engine.waiters[0].id for each in before), turns, now)


def next_turn(state: Registry, now: float) -> Iterator[float]:
    """The times at which one of these answers changes by itself."""
    if _pressing(state, now):
        yield from (stays_until(state, engine) for engine in state.engines.values() if engine.state in IN_MEMORY)
    waiting = [engine for engine in state.engines.values() if waits_for_memory(engine)]
    for waiter in (waiter for engine in waiting for waiter in engine.waiters):
        yield waiter.since + state.terms.starve_after
        if not waiter.resumed:
            yield waiter.since + state.terms.max_wait
