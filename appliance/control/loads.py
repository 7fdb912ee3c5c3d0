"""What is loaded next, what has to go for it, and what becomes of a load that fails. PURE."""

import math
from dataclasses import replace

from appliance.control import failures, rollback, turns
from appliance.control.eviction import CannotFit, Evict
from appliance.control.residency import (
    Effect,
    Engine,
    EngineState,
    Fetch,
    Registry,
    Reject,
    Spawn,
    Stop,
    Transition,
    Waiter,
)
from appliance.errors import ApplianceError, DiedLoading, Unavailable


def load(state: Registry, now: float) -> Transition:
    """Load what is waited for, oldest waiter first. What must wait for memory holds back those behind it:
    otherwise small models could starve a large one for ever."""
    effects: list[Effect] = []
    blocked = False
    for engine in queue(state, now):
        if engine.failure and now < engine.failure.retry_at:
            # Whoever comes within the pause of one that was killed waits like those who came just before it died.
            waiting = sitting(engine.waiters) if isinstance(engine.failure.error, DiedLoading) else engine.waiters
            patient = tuple(w for w in waiting if w.resumed and not engine.failure.permanent)
            effects += [Reject(w.id, failures.told(engine.failure, now)) for w in waiting if w not in patient]
            state = state.put(replace(engine, waiters=patient, wanted=engine.want.startup))
        elif not engine.want.present:
            effects.append(Fetch(engine.want.fingerprint))
            state = state.put(replace(engine, fetching=True))
        elif not blocked:
            state, caused, blocked = _make_room(state, engine, now)
            effects += caused
    return state, effects


def _make_room(state: Registry, engine: Engine, now: float) -> tuple[Registry, list[Effect], bool]:
    starving = bool(engine.waiters) and now >= engine.waiters[0].since + state.terms.starve_after
    beside = turns.residents(state, now)
    if starving:
        beside = [replace(resident, protected=False) for resident in beside]
    match turns.decide(state, engine, beside):
        case CannotFit(message, passing):
            if engine.want.fingerprint in state.former:
                return rollback.roll_back(state, engine, message), [], False
            failure = failures.following(engine.failure, Unavailable(message), not passing, now, engine.want.retry)
            told: list[Effect] = [Reject(w.id, failures.told(failure, now)) for w in engine.waiters]
            return state.put(replace(engine, failure=failure, waiters=())), told, False
        case Evict(()):
            number = state.spawned + 1
            started = replace(engine, state=EngineState.LOADING, number=number)
            return replace(state.put(started), spawned=number), [Spawn(engine.want.fingerprint, number)], False
        case Evict(victims):
            state, stops = evict(state, victims)
            return state, stops, True
        case _:
            return state, [], True


def evict(state: Registry, victims: tuple[str, ...]) -> Transition:
    """Stop these."""
    stops: list[Effect] = [Stop(state.engines[victim].number) for victim in victims]
    gone = {victim: state.engines[victim].stopped() for victim in victims}
    return replace(state, engines={**state.engines, **gone}), stops


def failed(state: Registry, engine: Engine, error: ApplianceError, permanent: bool, now: float) -> Registry:
    """Remember why there is no engine, and tell the waiters unless the load is simply tried once more."""
    failure = failures.following(engine.failure, error, permanent, now, engine.want.retry)
    if engine.want.fingerprint in state.former and (permanent or failure.tries > failures.FREE_TRIES):
        return rollback.roll_back(state, engine, error.message)
    if isinstance(error, DiedLoading):
        # An engine that was killed says nothing of the requests that wait, nor of the model: they sit through it.
        engine = replace(engine, waiters=sitting(engine.waiters))
    return state.put(replace(engine, failure=failure))


def sitting(waiters: tuple[Waiter, ...]) -> tuple[Waiter, ...]:
    """The same, who now wait as those that have begun already."""
    return tuple(waiter if waiter.hasty else replace(waiter, resumed=True) for waiter in waiters)


def queue(state: Registry, now: float) -> list[Engine]:
    """What is to be loaded, in this order."""
    return sorted((engine for engine in state.engines.values() if _asks(engine, now)), key=urgency)


def _asks(engine: Engine, now: float) -> bool:
    """Somebody waits for a load that is not under way; a load wanted by nobody waits out the pause of a failure."""
    if engine.state is not EngineState.COLD or engine.fetching or engine.retired:
        return False
    due = engine.failure is None or now >= engine.failure.retry_at
    return bool(engine.waiters) or (engine.wanted and due)


def urgency(engine: Engine) -> tuple[float, str]:
    """Smaller goes first: who has waited longest."""
    return (engine.waiters[0].id if engine.waiters else math.inf, engine.want.fingerprint)
