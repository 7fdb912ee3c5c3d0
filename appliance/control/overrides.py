"""What somebody asked for by hand on top of the deployment: it outlives reloads, not this process. PURE."""

import math
from collections.abc import Iterator
from dataclasses import replace

from appliance.config.units import show_duration
from appliance.control.residency import Engine, EngineState, Override, Registry, Transition

_NOTHING = Override()
MINUTE = 60


def pinned(state: Registry, model: str, until: float) -> Registry:
    """This model is pinned until then; a time that has passed takes it back."""
    return _put(state, model, replace(_of(state, model), pinned_until=until))


def loaded(state: Registry, model: str) -> Registry:
    """Somebody wanted this model in memory."""
    return _put(state, model, replace(_of(state, model), loaded=True))


def unloaded(state: Registry, fingerprint: str) -> Registry:
    """Somebody wanted the models of this engine out of memory; earlier overrides of them are over."""
    for model in _models(state, fingerprint):
        state = _put(state, model, Override(loaded=False))
    return state


def kept_out(state: Registry, models: set[str]) -> bool:
    """Whether one of these models stays out of memory until a request comes, whatever the deployment says."""
    return any(_of(state, model).loaded is False for model in models)


def follow(state: Registry, now: float) -> Transition:
    """Pins hold as long as was asked; a load or unload by hand is over once a request or the idle clock undid it."""
    overrides = {model: override for model, override in _lasting(state, now) if override != _NOTHING}
    if overrides != state.overrides:
        state = replace(state, overrides=overrides)
    wished = {model for model, override in overrides.items() if override.pinned_until > now}
    pinned = {state.names[model] for model in wished & state.names.keys()}
    return state.each(lambda engine: _pin(engine, True if engine.want.fingerprint in pinned else None)), []


def _pin(engine: Engine, pin: bool | None) -> Engine:
    return engine if engine.pin is pin else replace(engine, pin=pin)


def _lasting(state: Registry, now: float) -> Iterator[tuple[str, Override]]:
    for model, override in state.overrides.items():
        engine = state.engines.get(state.names.get(model, ""))
        over = engine is not None and override.loaded is not None and override.loaded is not _there(engine)
        override = replace(override, loaded=None) if over else override
        yield model, override if override.pinned_until > now else replace(override, pinned_until=-math.inf)


def _there(engine: Engine) -> bool:
    """It is in memory to stay, or on its way there."""
    if engine.waiters or engine.wanted:
        return True
    return not engine.leaving and engine.state in (EngineState.LOADING, EngineState.READY)


def ends(state: Registry) -> Iterator[float]:
    """When pins end."""
    return (override.pinned_until for override in state.overrides.values() if override.pinned_until > -math.inf)


def drift(state: Registry, model: str, now: float) -> tuple[str, ...]:
    """What of this model is not as the deployment says, in words."""
    override, engine = _of(state, model), state.engines.get(state.names.get(model, ""))
    if engine is None:
        return ()
    resident = engine.want.startup or engine.want.pinned
    return tuple(_said(override, engine, resident, now))


def _said(override: Override, engine: Engine, resident: bool, now: float) -> Iterator[str]:
    if override.pinned_until > now:
        left = override.pinned_until - now
        yield "pinned by hand" if left == math.inf else f"pinned by hand for {_about(left)}"
    if override.loaded is True and not resident:
        yield "loaded by hand"
    if override.loaded is False and resident:
        yield "unloaded by hand"
    if engine.keep is not None and engine.keep != engine.want.idle_unload and engine.state is EngineState.READY:
        yield f"kept {_about(engine.keep)} after its last request, which asked for that"


def _about(seconds: float) -> str:
    """In whole minutes where there are several."""
    if seconds == math.inf:
        return "for good"
    return show_duration(math.ceil(seconds / MINUTE) * MINUTE if seconds > 5 * MINUTE else math.ceil(seconds))


def _of(state: Registry, model: str) -> Override:
    return state.overrides.get(model, _NOTHING)


def _models(state: Registry, fingerprint: str) -> list[str]:
    return [model for model, served in state.names.items() if served == fingerprint]


def _put(state: Registry, model: str, override: Override) -> Registry:
    return replace(state, overrides={**state.overrides, model: override})
