"""What follows from what the registry knows: one rule each, applied until nothing follows any more. PURE."""

import math
from dataclasses import replace

from appliance.control import eviction, overrides, rollback, turns
from appliance.control.loads import evict, load
from appliance.control.residency import (
    IN_MEMORY,
    Effect,
    Engine,
    EngineState,
    Grant,
    Registry,
    Reject,
    Share,
    Stop,
    Transition,
    WakeAt,
)
from appliance.errors import Unavailable


def settle(state: Registry, effects: list[Effect], now: float) -> Transition:
    """Apply every rule until nothing follows any more, then say when to look again."""
    seen = None
    # A load that begins ends the making way for it, and the last rule may hand a model back to its old engine.
    while (reached := (len(effects), state.rolled)) != seen:
        seen = reached
        for rule in (overrides.follow, _part, _retire, _tire, _grant, _unload, _shrink, load, overrides.follow):
            state, caused = rule(state, now)
            effects += caused
    resident = [engine for engine in state.engines.values() if engine.state in IN_MEMORY]
    budget = state.terms.policy.budget - state.terms.policy.spare - state.aside
    sharing = (budget, *sorted(engine.number for engine in resident))
    if sharing != state.sharing:
        state = replace(state, sharing=sharing)
        taken = sum(engine.bytes for engine in resident)
        effects.append(Share(eviction.share(budget, taken, len(resident))))
    wake = _next_look(state, now)
    if wake < math.inf:
        effects.append(WakeAt(wake))
    return state, effects


def _part(state: Registry, now: float) -> Transition:
    """Of models that must not be in memory together, and are since the deployment changed, one stays."""
    apart = set(eviction.apart(turns.residents(state, now), state.terms.policy))
    return state.each(lambda e: replace(e, leaving=True) if e.want.fingerprint in apart else e), []


def _retire(state: Registry, now: float) -> Transition:
    """Engines outside the deployment take no new leases, and are forgotten once cold; nor do those that leave."""
    engines = {}
    for fingerprint, engine in state.engines.items():
        if engine.leaving and engine.state is EngineState.READY:
            engines[fingerprint] = replace(engine, state=EngineState.DRAINING)
        elif not engine.retired and not engine.leaving:
            back = engine.state is EngineState.DRAINING and not engine.stopping
            engines[fingerprint] = replace(engine, state=EngineState.READY) if back else engine
        elif engine.state is EngineState.READY:
            engines[fingerprint] = replace(engine, state=EngineState.DRAINING)
        elif engine.state is not EngineState.COLD:
            engines[fingerprint] = engine
    return replace(state, engines=engines), []


def _tire(state: Registry, now: float) -> Transition:
    """Tell those who have waited too long for memory."""
    told: list[Effect] = []

    def leave(engine: Engine) -> Engine:
        if not (weary := turns.weary(state, engine, now)):
            return engine
        why = Unavailable(turns.why_not(state, engine, now), retry_after=turns.retry_after(state, engine, now))
        told.extend(Reject(w.id, why) for w in weary)
        return replace(engine, waiters=tuple(w for w in engine.waiters if w not in weary))

    return state.each(leave), told


def _grant(state: Registry, now: float) -> Transition:
    grants: list[Effect] = []
    making_way = turns.making_way(state, now)

    def serve(engine: Engine) -> Engine:
        if engine.state is not EngineState.READY or not engine.waiters or engine.solitary is not None:
            return engine
        # Whoever waited for a load is served by it, or two models could take turns in loading and serve nobody.
        if engine.want.fingerprint in making_way and engine.ready_at != now:
            return engine
        if lone := next((w for w in engine.waiters if w.alone), None):
            # Nobody else begins while one waits to be alone: new ones could keep it waiting for ever.
            if engine.leases:
                return engine
            grants.append(Grant(lone.id, engine.number))
            staying = tuple(w for w in engine.waiters if w is not lone)
            return replace(engine, waiters=staying, leases=frozenset({lone.id}), solitary=lone.id, keep=lone.keep)
        grants.extend(Grant(w.id, engine.number) for w in engine.waiters)
        leases = engine.leases | {w.id for w in engine.waiters}
        return replace(engine, waiters=(), leases=leases, keep=engine.waiters[-1].keep)

    return state.each(serve), grants


def _unload(state: Registry, now: float) -> Transition:
    """Stop what is idle for too long and what has to go and holds no lease any more."""
    stops: list[Effect] = []

    def end(engine: Engine) -> Engine:
        if engine.leases or engine.stopping or engine.state is EngineState.COLD:
            return engine
        if rollback.standing_by(state, engine) and engine.state is not EngineState.LOADING:
            return engine
        if engine.retired or engine.leaving or engine.state is EngineState.DRAINING or now >= _unload_at(engine):
            stops.append(Stop(engine.number))
            return engine.stopped()
        return engine

    return state.each(end), stops


def _shrink(state: Registry, now: float) -> Transition:
    """Give up idle engines where the budget has become too small for what is in memory."""
    return evict(state, eviction.shrink(turns.residents(state, now), state.terms.policy, state.capacity))


def _unload_at(engine: Engine) -> float:
    if engine.pinned or engine.state is not EngineState.READY or engine.leases or engine.stopping:
        return math.inf
    return engine.idle_since + (engine.want.idle_unload if engine.keep is None else engine.keep)


def _next_look(state: Registry, now: float) -> float:
    idle = (_unload_at(engine) for engine in state.engines.values())
    probes = (e.failure.retry_at for e in state.engines.values() if (e.wanted or e.waiters) and e.failure)
    pins = (at for at in overrides.ends(state) if at > now)
    turn = (at for at in turns.next_turn(state, now) if at > now)
    return min((*idle, *probes, *pins, *turn), default=math.inf)


def idle_left(engine: Engine, now: float) -> float | None:
    """Seconds until it is unloaded if nobody comes; None where that clock does not run."""
    at = _unload_at(engine)
    return max(0.0, at - now) if at < math.inf else None
