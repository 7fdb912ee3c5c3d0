"""A plan for people and as data: changes, engines, memory on the way, requests in flight. PURE."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.diff import AddModel, ChangeModel, ChangeSetting, Plan, RemoveModel
from appliance.config.engines import groups
from appliance.config.problem import dotted
from appliance.config.units import show_bytes

Estimate = Callable[[ModelSpec], int | None]
"""Bytes an engine for this model takes; None where that cannot be known before its files are here."""

NOT_IN_FLIGHT: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of all engines before, at the worst moment and after; `room` is what models may take of the budget.

    `unknown` are models whose size is not known, counted as nothing; `reckoned` are those of which
    only the catalogue says what they take, counted as that: new ones and those in memory.
    """

    before: int
    peak: int
    after: int
    room: int
    unknown: tuple[str, ...]
    reckoned: dict[str, int]


def weigh(
    old: Deployment, new: Deployment, estimate: Estimate, loaded: Collection[str] | None = None, spare: int = 0
) -> Memory:
    """What the change costs. `loaded` are the models in memory now; without it those of `load: startup`. The blank
    engine takes `spare` bytes of the budget.

    A new engine is loaded beside the one it replaces if both fit, and after it otherwise.
    """
    now = {e: models for e, models in groups(old).items() if _is_loaded(models, loaded)}
    held = {model.name for models in now.values() for model in models}
    then = {e: m for e, m in groups(new).items() if e in now or _is_loaded(m, held) or _is_loaded(m, None)}
    first = {engine: models[0] for engine, models in {**groups(old), **groups(new)}.items()}
    known = {engine: estimate(model) for engine, model in first.items()}
    reckoned = {e: m.reckoned for e, m in first.items() if known[e] is None and m.reckoned is not None}
    sizes = {engine: size or reckoned.get(engine, 0) for engine, size in known.items()}
    room = new.memory.budget - new.memory.kv_reserve - spare
    starting = {engine: models for engine, models in then.items() if engine not in now}
    heirs = {engine: _heir(models, starting) for engine, models in now.items() if engine not in then}
    before = peak = sum(sizes[engine] for engine in now)
    current = before - sum(sizes[engine] for engine, heir in heirs.items() if heir is None)
    for engine in starting:
        freed = sum(sizes[old_engine] for old_engine, heir in heirs.items() if heir == engine)
        beside = current + sizes[engine]
        current = beside - freed
        peak = max(peak, beside if beside <= room else current)
    unknown = sorted(first[engine].name for engine in {**now, **then} if known[engine] is None and not sizes[engine])
    said = {e: first[e].name for e in reckoned if e in now or e in then or first[e].name not in old.models}
    return Memory(before, peak, current, room, tuple(unknown), {name: reckoned[e] for e, name in said.items()})


def _is_loaded(models: list[ModelSpec], loaded: Collection[str] | None) -> bool:
    return any(model.load == "startup" if loaded is None else model.name in loaded for model in models)


def _heir(models: list[ModelSpec], starting: Mapping[str, list[ModelSpec]]) -> str | None:
    """The engine that takes over from one that leaves."""
    names = {model.name for model in models}
    return next((engine for engine, others in starting.items() if names & {m.name for m in others}), None)


def render(plan: Plan, memory: Memory | None = None, in_flight: Mapping[str, int] = NOT_IN_FLIGHT) -> str:
    """Lines for a person. `in_flight` counts running requests by model."""
    if not plan:
        return "nothing changes"
    parts = [str(plan)]
    if engines := list(_engines(plan, in_flight)):
        parts.append("\n".join(["engines:", *engines]))
    if memory is not None:
        parts.append(_memory(memory))
    parts.append(_count(plan))
    return "\n\n".join(parts)


_ROWS = (
    ("stopped", "-", "stopped"),
    ("added", "+", "new"),
    ("replaced", "~!", "replaced by another engine"),
    ("rebuilt", "~!", "keeps its weights, begins with an empty cache"),
    ("kept", "=", "kept"),
)


def _engines(plan: Plan, in_flight: Mapping[str, int]) -> Iterator[str]:
    for kind, sign, said in _ROWS:
        for group in getattr(plan.engines, kind):
            running = sum(in_flight.get(name, 0) for name in group.split("+"))
            waits = running and kind not in ("kept", "added")
            first = f"; {running} request{'' if running == 1 else 's'} in flight finish{'es' if running == 1 else ''}"
            yield f"  {sign:<2} {group}: {said}{f'{first} first' if waits else ''}"


def _memory(memory: Memory) -> str:
    before, peak, after, room = map(show_bytes, (memory.before, memory.peak, memory.after, memory.room))
    text = f"memory: {before} before, {peak} at the peak, {after} after; models may take {room}"
    if not memory.peak and not memory.unknown:
        text = "memory: no model is loaded"
    if memory.after > memory.room:
        text += "\n  ! more than that: those used least recently will be stopped"
    if memory.reckoned:
        sizes = (f"{name} {show_bytes(size)}" for name, size in sorted(memory.reckoned.items()))
        text += f"\n  about, by the catalogue, until their files are here: {', '.join(sizes)}"
    if memory.unknown:
        text += f"\n  not counted, for their files are not here yet: {', '.join(memory.unknown)}"
    return text


def _count(plan: Plan) -> str:
    signs = [change["sign"] for change in _changes(plan)]
    added, removed = signs.count("+"), signs.count("-")
    return f"{added} to add, {len(signs) - added - removed} to change, {removed} to remove"


def as_data(plan: Plan, memory: Memory | None = None, in_flight: Mapping[str, int] = NOT_IN_FLIGHT) -> dict[str, Any]:
    """The same in JSON's types."""
    return {
        "empty": not plan,
        "changes": list(_changes(plan)),
        "engines": {kind: list(groups) for kind, groups in asdict(plan.engines).items()},
        "in_flight": dict(in_flight),
        "memory": None if memory is None else {**asdict(memory), "unknown": list(memory.unknown)},
    }


def _changes(plan: Plan) -> Iterator[dict[str, str | None]]:
    for action in plan.actions:
        match action:
            case AddModel(name):
                yield _change("+", dotted(("models", name)), "engine", None, None)
            case RemoveModel(name):
                yield _change("-", dotted(("models", name)), "engine", None, None)
            case ChangeModel():
                yield from (_change(c.sign, c.path, c.apply, c.before, c.after) for c in action.changes)
            case ChangeSetting(c):
                before, after = c.before if c.sign != "+" else None, c.after if c.sign != "-" else None
                yield _change(c.sign, c.path, c.apply, before, after)


def _change(sign: str, path: str, apply: str, before: str | None, after: str | None) -> dict[str, str | None]:
    return {"sign": sign, "path": path, "apply": apply, "before": before, "after": after}
