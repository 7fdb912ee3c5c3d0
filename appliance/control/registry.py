"""What the registry of engines is told: which engine is in which state, who waits for it and who holds it.

PURE: every `on_<event>(state, …, now)` returns the next state and the effects to perform. The events only record
what happened; `settle` alone decides what follows, so each rule stands in one place:

    cold ──load wanted, fits──▶ loading ──▶ ready ──idle, evicted or retired──▶ draining ──▶ gone (or cold again)
"""

from collections.abc import Mapping
from dataclasses import replace

from appliance.control import failures, loads, overrides, rollback
from appliance.control.residency import (
    IN_MEMORY,
    Effect,
    Engine,
    EngineState,
    Registry,
    Reject,
    Terms,
    Transition,
    Waiter,
    Want,
)
from appliance.control.rules import settle
from appliance.errors import LoadFailed, SourceError, Unavailable, UnknownModel


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
    kept_out = {fingerprint for fingerprint in wants if overrides.kept_out(state, _models(names, fingerprint))}
    engines: dict[str, Engine] = {
        fingerprint: _adopt(state.engines.get(fingerprint), want, fingerprint in replaced, fingerprint in kept_out)
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
    return settle(replace(state, engines=engines, names=dict(names), terms=terms), effects, now)


def on_acquire(state: Registry, waiter: Waiter, now: float) -> Transition:
    """A request wants a lease on the engine of its model; Grant or Reject answers it, exactly once."""
    if state.closing:
        return state, [Reject(waiter.id, Unavailable("the appliance is shutting down", retry_after=5))]
    if (fingerprint := state.names.get(waiter.model)) is None:
        return state, [Reject(waiter.id, _removed(waiter.model))]
    engine = state.engines[fingerprint]
    joined = replace(engine, waiters=(*engine.waiters, replace(waiter, since=now)))
    return settle(state.put(joined), [], now)


def on_leave(state: Registry, waiter: int, now: float) -> Transition:
    """A waiting request gave up. A load it started goes on: the next one will want it."""
    for engine in state.engines.values():
        staying = tuple(w for w in engine.waiters if w.id != waiter)
        if len(staying) != len(engine.waiters):
            return settle(state.put(replace(engine, waiters=staying)), [], now)
    return state, []


def on_release(state: Registry, lease: int, served: bool, now: float) -> Transition:
    """A request is done with its engine, `served` if it got what it came for; unknown leases are ignored."""
    for engine in state.engines.values():
        if lease in engine.leases:
            solitary = None if engine.solitary == lease else engine.solitary
            freed = replace(engine, leases=engine.leases - {lease}, solitary=solitary, idle_since=now)
            if served:
                freed = replace(freed, deaths=0, lonely=0)
            return settle(state.put(freed), [], now)
    return state, []


def on_cleared(state: Registry, lease: int, now: float) -> Transition:
    """Whoever held an engine alone may have company now."""
    for engine in state.engines.values():
        if engine.solitary == lease:
            return settle(state.put(replace(engine, solitary=None)), [], now)
    return state, []


def on_fetched(state: Registry, fingerprint: str, error: SourceError | None, now: float) -> Transition:
    """The download ended; without an error the files are here."""
    engine = state.engines.get(fingerprint)
    if engine is None or not engine.fetching:
        return state, []
    if error is None:
        engine = replace(engine, fetching=False, failure=None, want=replace(engine.want, present=True))
        return settle(state.put(engine), [], now)
    engine = replace(engine, fetching=False)
    return settle(loads.failed(state, engine, error, error.permanent, now), [], now)


def on_ready(state: Registry, number: int, now: float) -> Transition:
    """Process `number` has loaded its model."""
    engine = state.of(number)
    if engine is None or engine.state is not EngineState.LOADING:
        return state, []
    ready = replace(engine, state=EngineState.READY, wanted=False, failure=None, idle_since=now, ready_at=now)
    former = {f: want for f, want in state.former.items() if f != engine.want.fingerprint}
    return settle(replace(state.put(ready), former=former), [], now)


def on_measured(
    state: Registry, capacity: int | None, number: int | None, taken: int | None, now: float
) -> Transition:
    """Memory was measured: `capacity`, and what process `number` took when its model had just been loaded."""
    state = replace(state, capacity=capacity)
    engine = state.of(number) if number is not None else None
    if engine is not None and taken is not None:
        state = state.put(replace(engine, loaded_bytes=taken))
    return settle(state, [], now)


def on_aside(state: Registry, size: int, now: float) -> Transition:
    """Processes that hold no weights take so many bytes: engines may grow by less. No load is refused for them."""
    return settle(replace(state, aside=size), [], now)


def on_lost(state: Registry, number: int, now: float) -> Transition:
    """Process `number` stopped answering after it was ready: no lease on it is worth anything from here on."""
    engine = state.of(number)
    if engine is None or engine.state is EngineState.LOADING:
        return state, []
    died = replace(engine.stopped(), leases=frozenset(), solitary=None)
    if not engine.stopping:
        died = replace(died, deaths=engine.deaths + 1)
    return settle(state.put(died), [], now)


def on_gone(state: Registry, number: int, error: LoadFailed | None, lonely: bool, now: float) -> Transition:
    """Process `number` has ended and is reaped; `error` if it never got ready. Its leases are void. `lonely` if it
    died by itself with a single request.
    """
    engine = state.of(number)
    if engine is None:
        return state, []
    cold = replace(
        engine, state=EngineState.COLD, leases=frozenset(), solitary=None, stopping=False, leaving=False, keep=None
    )
    if error is not None and not engine.stopping:
        return settle(loads.failed(state, cold, error, error.permanent, now), [], now)
    if lonely:
        want, times = engine.want, engine.lonely + 1
        # Those who wait already are no more to blame than those who had begun: they sit through the pause.
        patient = loads.sitting(engine.waiters)
        pause = failures.crashing(times, want.model, now, want.retry)
        cold = replace(cold, lonely=times, waiters=patient, failure=pause)
    return settle(state.put(cold), [], now)


def on_tick(state: Registry, now: float) -> Transition:
    """Time has passed."""
    return settle(state, [], now)


def on_forgive(state: Registry, now: float) -> Transition:
    """Somebody says it is worth another try: what failed for good or is in a pause may be loaded again."""
    state = state.each(lambda engine: replace(engine, failure=None))
    if not state.rolled:
        return settle(state, [], now)
    terms = state.terms
    state, wants, names = rollback.again(state)
    return on_apply(state, wants, names, terms, now)


def on_load(state: Registry, model: str, now: float) -> Transition:
    """Somebody wants this model in memory, without a request for it."""
    if (fingerprint := state.names.get(model)) is None:
        return state, []
    engine = state.engines[fingerprint]
    wanted = engine.wanted or engine.stopping or engine.state is EngineState.COLD
    return settle(overrides.loaded(state.put(replace(engine, wanted=wanted, keep=None)), model), [], now)


def on_unload(state: Registry, fingerprint: str, at_once: bool, now: float) -> Transition:
    """Somebody wants the memory back: an engine nobody uses stops, and is loaded again when a request comes.

    `at_once`: those who wait are told, and an engine in use serves nobody new and stops with its last lease.
    """
    engine = state.engines.get(fingerprint)
    if engine is None or engine.retired or (not at_once and (engine.leases or engine.waiters)):
        return state, []
    told: list[Effect] = [Reject(waiter.id, unloaded(engine.want.model)) for waiter in engine.waiters]
    leaving = engine.state in IN_MEMORY and not engine.stopping
    left = replace(engine, wanted=False, waiters=(), leaving=leaving)
    return settle(overrides.unloaded(state.put(left), fingerprint), told, now)


def on_pin(state: Registry, model: str, until: float, now: float) -> Transition:
    """This model is pinned until then on top of what the deployment pins; a time that has passed takes it back."""
    return settle(overrides.pinned(state, model, until), [], now)


def on_close(state: Registry, now: float) -> Transition:
    """No new leases from here on; waiters are told, engines end with their last lease."""
    told: list[Effect] = []
    engines = {}
    for fingerprint, engine in state.engines.items():
        told += [Reject(w.id, Unavailable("the appliance is shutting down", retry_after=5)) for w in engine.waiters]
        engines[fingerprint] = replace(engine, waiters=(), wanted=False, retired=True)
    return settle(replace(state, engines=engines, names={}, former={}, rolled={}, closing=True), told, now)


# ---- small parts
def _adopt(engine: Engine | None, want: Want, replaces: bool, kept_out: bool) -> Engine:
    startup = want.startup and not kept_out
    if engine is None:
        return Engine(want, wanted=startup or replaces)
    # A failure stands until the fingerprint changes, unless it was about memory, which may have changed.
    failure = engine.failure
    if failure is not None and isinstance(failure.error, Unavailable):
        failure = None
    started = startup and not engine.want.startup and engine.state is EngineState.COLD
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


def unloaded(model: str) -> Unavailable:
    """What requests are told that an unload ends."""
    return Unavailable(f"the model {model} was unloaded by hand", retry_after=1)


def _models(names: Mapping[str, str], fingerprint: str) -> set[str]:
    return {model for model, served in names.items() if served == fingerprint}


def _removed(model: str) -> UnknownModel:
    return UnknownModel(f"the model {model!r} is not in this deployment", param="model")
