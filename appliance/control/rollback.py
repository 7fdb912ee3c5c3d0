"""What becomes of a model whose new engine fails: the old one serves it again. PURE.

`former` holds, by new fingerprint, what the old engine was, until the new one is ready; `rolled` what went back.
"""

from collections.abc import Mapping
from dataclasses import replace

from appliance.control.residency import IN_MEMORY, Engine, EngineState, Registry, RolledBack, Want


def former(state: Registry, wants: Mapping[str, Want], names: Mapping[str, str]) -> dict[str, Want]:
    """What the engines of a new deployment replace, if that ever worked."""
    found = {new: want for new, want in state.former.items() if new in wants}
    for model, new in names.items():
        old = state.names.get(model)
        if old is None or old == new or old in wants or (engine := state.engines.get(old)) is None:
            continue
        if engine.worked:
            found[new] = engine.want
        elif old in state.former:
            found[new] = state.former[old]
    return {new: want for new, want in found.items() if want.fingerprint not in wants and not _worked(state, new)}


def _worked(state: Registry, fingerprint: str) -> bool:
    engine = state.engines.get(fingerprint)
    return engine is not None and engine.worked


def standing_by(state: Registry, engine: Engine) -> bool:
    """It is kept until its successor has shown that it works, as long as nobody needs its memory."""
    return engine.retired and not engine.stopping and any(
        want.fingerprint == engine.want.fingerprint for want in state.former.values()
    )  # fmt: skip


def keep_rolled(
    state: Registry, wants: Mapping[str, Want], names: Mapping[str, str]
) -> tuple[Registry, dict[str, Want], dict[str, str]]:
    """A deployment that still asks for what has failed: the old engines go on serving it, unless its models are
    spoken to in another way, which may be all that was wrong.
    """
    kept, wants, names = {}, dict(wants), dict(names)
    for new, back in state.rolled.items():
        old = back.old.fingerprint
        if new not in wants or old in wants or wants[new].speech != back.new.speech:
            continue
        asked = wants.pop(new)
        live = replace(back.old, pinned=asked.pinned, idle_unload=asked.idle_unload, startup=asked.startup)
        wants[old] = live
        names = {model: old if fingerprint == new else fingerprint for model, fingerprint in names.items()}
        kept[new] = RolledBack(live, asked, back.message)
    return replace(state, rolled=kept), wants, names


def again(state: Registry) -> tuple[Registry, dict[str, Want], dict[str, str]]:
    """The deployment as it was asked for, with what had failed."""
    wants = {f: engine.want for f, engine in state.engines.items() if not engine.retired}
    names = dict(state.names)
    for new, back in state.rolled.items():
        old = back.old.fingerprint
        wants.pop(old, None)
        wants[new] = back.new
        names = {model: new if fingerprint == old else fingerprint for model, fingerprint in names.items()}
    return replace(state, rolled={}), wants, names


def roll_back(state: Registry, failed: Engine, message: str) -> Registry:
    """Hand the models and the waiters of an engine that failed back to the one before it."""
    new, want = failed.want.fingerprint, state.former[failed.want.fingerprint]
    live = replace(want, pinned=failed.want.pinned, idle_unload=failed.want.idle_unload, startup=failed.want.startup)
    old = state.engines.get(want.fingerprint, Engine(live))
    wanted = old.stopping or old.state not in IN_MEMORY
    waiters = tuple(sorted((*old.waiters, *failed.waiters), key=lambda waiter: waiter.id))
    back = replace(old, want=live, retired=False, wanted=wanted, waiters=waiters, failure=None)
    gone = replace(failed, retired=True, wanted=False, waiters=(), state=EngineState.COLD)
    return replace(
        state,
        engines={**state.engines, new: gone, want.fingerprint: back},
        names={m: want.fingerprint if f == new else f for m, f in state.names.items()},
        former={f: w for f, w in state.former.items() if f != new},
        rolled={**state.rolled, new: RolledBack(live, failed.want, message)},
    )
