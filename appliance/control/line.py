"""Where in line the requests for a model stand that is not serving them, and what they wait for. PURE."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from appliance.config.units import show_duration
from appliance.control import loads, rollback, turns
from appliance.control.residency import IN_MEMORY, Engine, EngineState, Registry


@dataclass(frozen=True, slots=True)
class Standing:
    """`position` counts the models that wait for memory, 1 is the next; None where it is something else they miss."""

    position: int | None
    reason: str


def standing(state: Registry, engine: Engine, now: float) -> Standing | None:
    """None where nobody waits for it."""
    if not engine.waiters:
        return None
    if engine.fetching:
        return Standing(None, "its files are being fetched")
    match engine.state:
        case EngineState.LOADING:
            return Standing(None, "it is being loaded")
        case EngineState.READY:
            return Standing(None, _held_up(state, engine, now))
        case EngineState.DRAINING:
            return Standing(None, f"{_ending(engine)}; then it is loaded again")
    if engine.failure is not None and engine.failure.retry_at > now:
        return Standing(None, f"it is tried again in {_seconds(engine.failure.retry_at - now)}")
    line = [each.want.fingerprint for each in loads.queue(state, now) if turns.waits_for_memory(each)]
    if engine.want.fingerprint not in line:
        return Standing(None, "it is about to be loaded")
    position = line.index(engine.want.fingerprint) + 1
    if position > 1:
        return Standing(position, f"for memory, after {state.engines[line[0]].want.model}")
    return Standing(1, f"for memory: {', '.join(_holders(state, now)) or 'it is being measured'}")


def _held_up(state: Registry, engine: Engine, now: float) -> str:
    if engine.solitary is not None or any(waiter.alone for waiter in engine.waiters):
        return "a request has its engine to itself"
    first = min((e for e in state.engines.values() if turns.waits_for_memory(e)), key=loads.urgency, default=None)
    return f"it makes way for {first.want.model}" if first is not None else "it is about to be served"


def _holders(state: Registry, now: float) -> Iterator[str]:
    """Who has the memory, and until when they cannot give it back."""
    for engine in state.engines.values():
        model, stays = engine.want.model, turns.stays_until(state, engine)
        if engine.state not in IN_MEMORY:
            continue
        if engine.stopping or (engine.state is EngineState.DRAINING and not rollback.standing_by(state, engine)):
            yield f"{model}: {_ending(engine)}"
        elif engine.state is EngineState.LOADING:
            yield f"{model} is being loaded"
        elif engine.pinned:
            yield f"{model} is pinned"
        elif engine.leases:
            yield f"{model} answers {_requests(engine)}"
        elif now < stays < math.inf:
            yield f"{model} stays for {_seconds(stays - now)}"


def _ending(engine: Engine) -> str:
    return f"its engine ends after {_requests(engine)}" if engine.leases else "its engine is ending"


def _requests(engine: Engine) -> str:
    count = len(engine.leases)
    return f"{count} request{'' if count == 1 else 's'}"


def _seconds(left: float) -> str:
    return show_duration(math.ceil(left))
