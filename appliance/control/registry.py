"""Which engine is in which state, who waits for it, who holds it, and what has to happen next.

PURE: every `on_<event>(state, …, now)` returns the next state and the effects to perform. The events only record
what happened; `_settle` alone decides what follows, so each rule stands in one place:

    cold ──load wanted, fits──▶ loading ──▶ ready ──idle, evicted or retired──▶ draining ──▶ gone (or cold again)
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from appliance.control import eviction, failures, rollback, turns
from appliance.control.eviction import CannotFit, Evict
from appliance.control.residency import (
    IN_MEMORY,
    Effect,
    Engine,
    EngineState,
    Fetch,
    Grant,
    Registry,
    Reject,
    Share,
    Spawn,
    Stop,
    Terms,
    Transition,
    Waiter,
    WakeAt,
    Want,
)
from appliance.errors import ApplianceError, LoadFailed, SourceError, Unavailable, UnknownModel


# ---- events
def on_apply(
    state: Registry, wants: Mapping[str, Want], names: Mapping[str, str], terms: Terms, now: float
) -> Transition:
    """A deployment was accepted. Waiters follow their model's name; those of a removed model are told.

    An engine nobody names any more takes no new leases and ends with its last one. The successor of an engine
    that was in memory is loaded without waiting for a request.
    """
    state, wants, names = rollback.keep_rolled(state, wants, names)
    state = replace(state, former=rollback.former(state, wants, names))
    replaced = _replacements(state, names)
    engines: dict[str, Engine] = {
        fingerprint: _adopt(state.engines.get(fingerprint), want, fingerprint in replaced)
        for fingerprint, want in wants.items()
    }
    orphans: list[Waiter] = []
    for fingerprint, engine in state.engines.items():
        if fingerprint not in wants:
            orphans += engine.waiters
            engines[fingerprint] = replace(engine, retired=True, wanted=False, waiters=())
        else:
            staying = tuple(w for w in engine.waiters if names.get(w.model) == fingerprint)
            orphans += [w for w in engine.waiters if w not in staying]
            engines[fingerprint] = replace(engines[fingerprint], waiters=staying)
    effects: list[Effect] = []
    for waiter in orphans:
        if (home := names.get(waiter.model)) is None:
            effects.append(Reject(waiter.id, _removed(waiter.model)))
        else:
            engine = engines[home]
            engines[home] = replace(engine, waiters=tuple(sorted((*engine.waiters, waiter), key=lambda w: w.id)))
    return _settle(replace(state, engines=engines, names=dict(names), terms=terms), effects, now)


def on_acquire(state: Registry, waiter: Waiter, now: float) -> Transition:
    """A request wants a lease on the engine of its model; Grant or Reject answers it, exactly once."""
    if state.closing:
        return state, [Reject(waiter.id, Unavailable("the appliance is shutting down", retry_after=5))]
    if (fingerprint := state.names.get(waiter.model)) is None:
        return state, [Reject(waiter.id, _removed(waiter.model))]
    engine = state.engines[fingerprint]
    joined = replace(engine, waiters=(*engine.waiters, replace(waiter, since=now)))
    return _settle(_put(state, joined), [], now)


def on_leave(state: Registry, waiter: int, now: float) -> Transition:
    """A waiting request gave up. A load it started goes on: the next one will want it."""
    for engine in state.engines.values():
        staying = tuple(w for w in engine.waiters if w.id != waiter)
        if len(staying) != len(engine.waiters):
            return _settle(_put(state, replace(engine, waiters=staying)), [], now)
    return state, []


def on_release(state: Registry, lease: int, served: bool, now: float) -> Transition:
    """A request is done with its engine, `served` if it got what it came for; unknown leases are ignored."""
    for engine in state.engines.values():
        if lease in engine.leases:
            solitary = None if engine.solitary == lease else engine.solitary
            freed = replace(engine, leases=engine.leases - {lease}, solitary=solitary, idle_since=now)
            if served:
                freed = replace(freed, deaths=0, lonely=0)
            return _settle(_put(state, freed), [], now)
    return state, []


def on_cleared(state: Registry, lease: int, now: float) -> Transition:
    """Whoever held an engine alone may have company now."""
    for engine in state.engines.values():
        if engine.solitary == lease:
            return _settle(_put(state, replace(engine, solitary=None)), [], now)
    return state, []


def on_fetched(state: Registry, fingerprint: str, error: SourceError | None, now: float) -> Transition:
    """The download ended; without an error the files are here."""
    engine = state.engines.get(fingerprint)
    if engine is None or not engine.fetching:
        return state, []
    if error is None:
        engine = replace(engine, fetching=False, failure=None, want=replace(engine.want, present=True))
        return _settle(_put(state, engine), [], now)
    engine = replace(engine, fetching=False)
    return _fail(state, engine, error, error.permanent, now)


def on_ready(state: Registry, number: int, now: float) -> Transition:
    """Process `number` has loaded its model."""
    engine = _of(state, number)
    if engine is None or engine.state is not EngineState.LOADING:
        return state, []
    ready = replace(engine, state=EngineState.READY, wanted=False, failure=None, idle_since=now, ready_at=now)
    former = {f: want for f, want in state.former.items() if f != engine.want.fingerprint}
    return _settle(replace(_put(state, ready), former=former), [], now)


def on_measured(
    state: Registry, capacity: int | None, number: int | None, taken: int | None, now: float
) -> Transition:
    """Memory was measured: `capacity`, and what process `number` took when its model had just been loaded."""
    state = replace(state, capacity=capacity)
    engine = _of(state, number) if number is not None else None
    if engine is not None and taken is not None:
        state = _put(state, replace(engine, loaded_bytes=taken))
    return _settle(state, [], now)


def on_lost(state: Registry, number: int, now: float) -> Transition:
    """Process `number` stopped answering after it was ready: no lease on it is worth anything from here on."""
    engine = _of(state, number)
    if engine is None or engine.state is EngineState.LOADING:
        return state, []
    died = replace(_stopped(engine), leases=frozenset(), solitary=None)
    if not engine.stopping:
        died = replace(died, deaths=engine.deaths + 1)
    return _settle(_put(state, died), [], now)


def on_gone(state: Registry, number: int, error: LoadFailed | None, lonely: bool, now: float) -> Transition:
    """Process `number` has ended and is reaped; `error` if it never got ready. Its leases are void. `lonely` if it
    died by itself with a single request.
    """
    engine = _of(state, number)
    if engine is None:
        return state, []
    cold = replace(engine, state=EngineState.COLD, leases=frozenset(), solitary=None, stopping=False)
    if error is not None and not engine.stopping:
        return _fail(state, cold, error, error.permanent, now)
    if lonely:
        want, times = engine.want, engine.lonely + 1
        # Those who wait already are no more to blame than those who had begun: they sit through the pause.
        patient = tuple(replace(waiter, resumed=True) for waiter in engine.waiters)
        pause = failures.crashing(times, want.model, now, want.retry)
        cold = replace(cold, lonely=times, waiters=patient, failure=pause)
    return _settle(_put(state, cold), [], now)


def on_tick(state: Registry, now: float) -> Transition:
    """Time has passed."""
    return _settle(state, [], now)


def on_forgive(state: Registry, now: float) -> Transition:
    """Somebody says it is worth another try: what failed for good or is in a pause may be loaded again."""
    state = _each(state, lambda engine: replace(engine, failure=None))
    if not state.rolled:
        return _settle(state, [], now)
    terms = state.terms
    state, wants, names = rollback.again(state)
    return on_apply(state, wants, names, terms, now)


def on_unload(state: Registry, fingerprint: str, now: float) -> Transition:
    """Somebody wants the memory back: an engine nobody uses stops, and is loaded again when a request comes."""
    engine = state.engines.get(fingerprint)
    if engine is None or engine.leases or engine.waiters or engine.stopping or engine.state not in IN_MEMORY:
        return state, []
    return _settle(_put(state, replace(_stopped(engine), wanted=False)), [Stop(engine.number)], now)


def on_pin(state: Registry, models: Collection[str], now: float) -> Transition:
    """Exactly these models are pinned on top of what the deployment pins."""
    pinned = {state.names[model] for model in models if model in state.names}
    engines = {f: replace(engine, pin=True if f in pinned else None) for f, engine in state.engines.items()}
    return _settle(replace(state, engines=engines), [], now)


def on_close(state: Registry, now: float) -> Transition:
    """No new leases from here on; waiters are told, engines end with their last lease."""
    told: list[Effect] = []
    engines = {}
    for fingerprint, engine in state.engines.items():
        told += [Reject(w.id, Unavailable("the appliance is shutting down", retry_after=5)) for w in engine.waiters]
        engines[fingerprint] = replace(engine, waiters=(), wanted=False, retired=True)
    return _settle(replace(state, engines=engines, names={}, former={}, rolled={}, closing=True), told, now)


# ---- rules
def _settle(state: Registry, effects: list[Effect], now: float) -> Transition:
    """Apply every rule until nothing follows any more, then say when to look again."""
    rolled = None
    while rolled is not state.rolled:  # the last rule may hand a model back to its old engine
        rolled = state.rolled
        for rule in (_retire, _tire, _grant, _unload, _shrink, _load):
            state, caused = rule(state, now)
            effects += caused
    resident = [engine for engine in state.engines.values() if engine.state in IN_MEMORY]
    budget = state.terms.policy.budget
    sharing = (budget, *sorted(engine.number for engine in resident))
    if sharing != state.sharing:
        state = replace(state, sharing=sharing)
        taken = sum(engine.bytes for engine in resident)
        effects.append(Share(eviction.share(budget, taken, len(resident))))
    wake = _next_look(state, now)
    if wake < math.inf:
        effects.append(WakeAt(wake))
    return state, effects


def _retire(state: Registry, now: float) -> Transition:
    """Engines outside the deployment take no new leases, and are forgotten once cold."""
    engines = {}
    for fingerprint, engine in state.engines.items():
        if not engine.retired:
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
        why = f"{engine.want.model} got no memory within memory.queue.max_wait; others were using all of it"
        told.extend(Reject(w.id, Unavailable(why, retry_after=5)) for w in weary)
        return replace(engine, waiters=tuple(w for w in engine.waiters if w not in weary))

    return _each(state, leave), told


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
            return replace(engine, waiters=staying, leases=frozenset({lone.id}), solitary=lone.id)
        grants.extend(Grant(w.id, engine.number) for w in engine.waiters)
        return replace(engine, waiters=(), leases=engine.leases | {w.id for w in engine.waiters})

    return _each(state, serve), grants


def _unload(state: Registry, now: float) -> Transition:
    """Stop what is idle for too long and what has to go and holds no lease any more."""
    stops: list[Effect] = []

    def end(engine: Engine) -> Engine:
        if engine.leases or engine.stopping or engine.state is EngineState.COLD:
            return engine
        if rollback.standing_by(state, engine) and engine.state is not EngineState.LOADING:
            return engine
        if engine.retired or engine.state is EngineState.DRAINING or now >= _unload_at(engine):
            stops.append(Stop(engine.number))
            return _stopped(engine)
        return engine

    return _each(state, end), stops


def _shrink(state: Registry, now: float) -> Transition:
    """Give up idle engines where the budget has become too small for what is in memory."""
    return _evict(state, eviction.shrink(turns.residents(state, now), state.terms.policy, state.capacity))


def _evict(state: Registry, victims: tuple[str, ...]) -> Transition:
    stops: list[Effect] = [Stop(state.engines[victim].number) for victim in victims]
    gone = {victim: _stopped(state.engines[victim]) for victim in victims}
    return replace(state, engines={**state.engines, **gone}), stops


def _load(state: Registry, now: float) -> Transition:
    """Load what is waited for, oldest waiter first. What must wait for memory holds back those behind it:
    otherwise small models could starve a large one for ever."""
    effects: list[Effect] = []
    queue = sorted((e for e in state.engines.values() if _asks(e, now)), key=_urgency)
    blocked = False
    for engine in queue:
        if engine.failure and now < engine.failure.retry_at:
            patient = tuple(w for w in engine.waiters if w.resumed and not engine.failure.permanent)
            effects += [Reject(w.id, failures.told(engine.failure, now)) for w in engine.waiters if w not in patient]
            state = _put(state, replace(engine, waiters=patient, wanted=engine.want.startup))
        elif not engine.want.present:
            effects.append(Fetch(engine.want.fingerprint))
            state = _put(state, replace(engine, fetching=True))
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
            return _put(state, replace(engine, failure=failure, waiters=())), told, False
        case Evict(()):
            number = state.spawned + 1
            started = replace(engine, state=EngineState.LOADING, number=number)
            return replace(_put(state, started), spawned=number), [Spawn(engine.want.fingerprint, number)], False
        case Evict(victims):
            state, stops = _evict(state, victims)
            return state, stops, True
        case _:
            return state, [], True


def _fail(state: Registry, engine: Engine, error: ApplianceError, permanent: bool, now: float) -> Transition:
    """Remember why there is no engine, and tell the waiters unless the load is simply tried once more."""
    failure = failures.following(engine.failure, error, permanent, now, engine.want.retry)
    if engine.want.fingerprint in state.former and (permanent or failure.tries > failures.FREE_TRIES):
        return _settle(rollback.roll_back(state, engine, error.message), [], now)
    failed = replace(engine, failure=failure)
    return _settle(_put(state, failed), [], now)


def _asks(engine: Engine, now: float) -> bool:
    """Somebody waits for a load that is not under way; a load wanted by nobody waits out the pause of a failure."""
    if engine.state is not EngineState.COLD or engine.fetching or engine.retired:
        return False
    due = engine.failure is None or now >= engine.failure.retry_at
    return bool(engine.waiters) or (engine.wanted and due)


def _urgency(engine: Engine) -> tuple[float, str]:
    return (engine.waiters[0].id if engine.waiters else math.inf, engine.want.fingerprint)


def _unload_at(engine: Engine) -> float:
    if engine.pinned or engine.state is not EngineState.READY or engine.leases or engine.stopping:
        return math.inf
    return engine.idle_since + engine.want.idle_unload


def _next_look(state: Registry, now: float) -> float:
    idle = (_unload_at(engine) for engine in state.engines.values())
    probes = (e.failure.retry_at for e in state.engines.values() if (e.wanted or e.waiters) and e.failure)
    turn = (at for at in turns.next_turn(state, now) if at > now)
    return min((*idle, *probes, *turn), default=math.inf)


def idle_left(engine: Engine, now: float) -> float | None:
    """Seconds until it is unloaded if nobody comes; None where that clock does not run."""
    at = _unload_at(engine)
    return max(0.0, at - now) if at < math.inf else None


# ---- small parts
def _adopt(engine: Engine | None, want: Want, replaces: bool) -> Engine:
    if engine is None:
        return Engine(want, wanted=want.startup or replaces)
    # A failure stands until the fingerprint changes, unless it was about memory, which may have changed.
    failure = engine.failure
    if failure is not None and isinstance(failure.error, Unavailable):
        failure = None
    started = want.startup and not engine.want.startup and engine.state is EngineState.COLD
    present = want.present or engine.want.present
    return replace(
        engine, want=replace(want, present=present), retired=False, wanted=engine.wanted or started, failure=failure
    )


def _replacements(state: Registry, names: Mapping[str, str]) -> set[str]:
    """The new fingerprints of models whose old engine is in memory."""
    return {
        new
        for model, new in names.items()
        if (old := state.names.get(model)) is not None
        and old != new
        and state.engines[old].state in (EngineState.LOADING, EngineState.READY)
    }


def _removed(model: str) -> UnknownModel:
    return UnknownModel(f"the model {model!r} is not in this deployment", param="model")


def _stopped(engine: Engine) -> Engine:
    return replace(engine, state=EngineState.DRAINING, stopping=True)


def _put(state: Registry, engine: Engine) -> Registry:
    return replace(state, engines={**state.engines, engine.want.fingerprint: engine})


def _each(state: Registry, change: Callable[[Engine], Engine]) -> Registry:
    return replace(state, engines={f: change(e) for f, e in state.engines.items()})


def _of(state: Registry, number: int) -> Engine | None:
    return next((e for e in state.engines.values() if e.number == number and e.state in IN_MEMORY), None)
