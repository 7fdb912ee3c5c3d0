"""The difference between two deployments as a Plan: what changes, and what has to happen for it. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from appliance.config.deployment import Deployment, ModelSpec, Source
from appliance.config.engines import Engines, engines
from appliance.config.problem import Path, dotted
from appliance.config.scalar import show
from appliance.config.settings import Setting, Settings, entity, is_secret, of_model, of_rest

Apply = Literal["live", "cache", "engine", "listener", "process"]

APPLY: Mapping[str, Apply] = {
    "version": "live",
    "include": "live",
    "server.listen": "listener",
    "server.tls": "listener",
    "server": "live",
    "security": "live",
    "memory": "live",
    "engine.blas": "engine",
    "engine": "live",
    "defaults.dtype": "engine",
    "defaults": "live",
    "profiles": "live",
    "aliases": "live",
    "routing": "live",
    "cache": "live",
    "cache.*.prefix": "cache",
    "cache.*.prefix.memory": "live",
    "cache.*.prefix.disk": "live",
    "cache.*.prefix.ttl": "live",
    "cache.*.share": "cache",
    "storage": "live",
    "hooks": "live",
    "observability": "live",
    "models.*": "live",
    "models.*.source": "engine",
    "models.*.revision": "engine",
    "models.*.kind": "engine",
    "models.*.dtype": "engine",
    "models.*.quantize": "engine",
    "models.*.speculative": "engine",
    "models.*.trust_remote_code": "engine",
    "models.*.kv": "cache",
    "models.*.max_kv": "engine",
}
"""What a change of a setting, or of anything below it, needs; `*` is any name. The schema says the same."""

SIGNS: Mapping[Apply, str] = {"live": "~", "cache": "~!", "engine": "~!", "listener": "!!", "process": "!!"}
_STRENGTH: tuple[Apply, ...] = ("live", "cache", "engine", "listener", "process")


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, with its values as a user would write them; `sign` says whether a whole thing comes or goes."""

    path: str
    apply: Apply
    before: str
    after: str
    sign: str

    def __str__(self) -> str:
        match self.sign:
            case "+":
                return f"{self.path}: {self.after}" if self.after else self.path
            case "-":
                return f"{self.path}: {self.before}" if self.before else self.path
        return f"{self.path}: {self.before} > {self.after}"


@dataclass(frozen=True, slots=True)
class AddModel:
    name: str

    def __str__(self) -> str:
        return f"+ {dotted(('models', self.name))}"


@dataclass(frozen=True, slots=True)
class RemoveModel:
    name: str

    def __str__(self) -> str:
        return f"- {dotted(('models', self.name))}"


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """`apply` is the strongest class of its changes: `engine` means another engine, `cache` another KV store."""

    name: str
    apply: Apply
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        return "\n".join(f"{change.sign} {change}" for change in self.changes)


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """A change outside `models`. One of class `engine` concerns every engine."""

    change: Change

    @property
    def apply(self) -> Apply:
        return self.change.apply

    def __str__(self) -> str:
        return f"{self.change.sign} {self.change}"


Action = AddModel | RemoveModel | ChangeModel | ChangeSetting


@dataclass(frozen=True, slots=True)
class Plan:
    """What turns one deployment into another; empty for equal ones. `engines` is what becomes of each engine."""

    actions: tuple[Action, ...]
    engines: Engines = field(default=Engines(), compare=False)

    def __bool__(self) -> bool:
        return bool(self.actions)

    def __str__(self) -> str:
        return "\n".join(str(action) for action in self.actions)


def diff(old: Deployment, new: Deployment) -> Plan:
    """Models first (gone, new, changed), then everything else, each in the order of its name."""
    if old == new:
        return Plan((), engines(old, new, frozenset()))
    kept = sorted(old.models.keys() & new.models.keys())
    actions: list[Action] = [RemoveModel(name) for name in sorted(old.models.keys() - new.models.keys())]
    actions += [AddModel(name) for name in sorted(new.models.keys() - old.models.keys())]
    changed = [a for name in kept if (a := _model(old.models[name], new.models[name])) is not None]
    others = [ChangeSetting(change) for change in _others(*map(of_rest, _differing(old, new)))]
    caches = {change.change.path.split(".")[1] for change in others if change.apply == "cache"}
    rebuilt = {model.name for model in changed if model.apply == "cache"}
    rebuilt |= {name for name in kept if new.models[name].cache.name in caches}
    return Plan((*actions, *changed, *others), engines(old, new, frozenset(rebuilt)))


def apply_class(path: Path) -> Apply:
    """What a change at this path needs: as the row for it, or the nearest one above it, says."""
    parts = tuple("*" if i == 1 and path[0] in ("models", "cache") else str(part) for i, part in enumerate(path))
    for end in range(len(parts), 0, -1):
        if (row := APPLY.get(".".join(parts[:end]))) is not None:
            return row
    raise KeyError(path)


def _differing(old: Deployment, new: Deployment) -> tuple[Deployment, Deployment]:
    """Both without the aliases they have in common: there may be thousands, and a reload has little time."""
    same = {name for name, alias in old.aliases.items() if new.aliases.get(name) == alias}
    left, right = ({n: a for n, a in side.aliases.items() if n not in same} for side in (old, new))
    return replace(old, aliases=left), replace(new, aliases=right)


def _model(old: ModelSpec, new: ModelSpec) -> ChangeModel | None:
    if old == new:
        return None
    changes = list(_changes(of_model(old), of_model(new)))
    changes += _behind(old, new, {change.path: change.apply for change in changes})
    if not changes:
        return None
    strongest = max((change.apply for change in changes), key=_STRENGTH.index)
    return ChangeModel(new.name, strongest, tuple(changes))


def _behind(old: ModelSpec, new: ModelSpec, said: Mapping[str, Apply]) -> Iterator[Change]:
    """What changed behind settings that are as they were: files, and what was read from them."""

    def change(setting: str, before: str, after: str, apply: Apply) -> Change:
        return Change(dotted(("models", new.name, setting)), apply, before, after, SIGNS[apply])

    if old.checkpoint != new.checkpoint:
        yield change("checkpoint", "its sampling", "another", "live")
    family = dotted(("models", new.name, "family"))
    if old.family != new.family and not any(path == family or ".dialects." in path for path in said):
        yield change("family", old.family.name, "its file changed", "live")
    if old.fingerprint != new.fingerprint and "engine" not in said.values():
        yield change("source", _text(old.source.text), "its files changed", "engine")


def _others(old: Settings, new: Settings) -> Iterator[Change]:
    """Everything but models: whole entities where they come or go, single settings otherwise."""
    before, after = _entities(old), _entities(new)
    yield from sorted(
        [
            *(_whole(path, old, "-") for path in before - after),
            *(_whole(path, new, "+") for path in after - before),
            *_changes(_of_both(old, before & after), _of_both(new, before & after)),
        ],
        key=lambda change: change.path,
    )


def _entities(found: Settings) -> set[Path]:
    return {whole for path in found if (whole := entity(path)) is not None}


def _of_both(found: Settings, entities: set[Path]) -> Settings:
    return {p: s for p, s in found.items() if (whole := entity(p)) is None or whole in entities}


def _whole(path: Path, found: Settings, sign: str) -> Change:
    """An entity that comes or goes, with the one thing most worth knowing about it."""
    main = next((s for part in _MAIN if (s := found.get((*path, *part))) is not None), None)
    said = _said(main) if main is not None else ""
    return Change(dotted(path), apply_class(path), said, said, sign)


_MAIN: tuple[Path, ...] = (("model",), ("use",), ("to",), ("url",), ("allow",), ("prefix", "memory"), ("prefix",))


def _changes(old: Settings, new: Settings) -> Iterator[Change]:
    # Between a cache and none there is one line, not one for each of its settings.
    none = {path for path in old.keys() ^ new.keys() if path[0] == "cache" and path[2:] == ("prefix",)}
    for path in sorted(old.keys() | new.keys(), key=dotted):
        before, after = old.get(path, _NOTHING), new.get(path, _NOTHING)
        if path in none:
            memory = (*path, "memory")
            before, after = old.get(path) or old[memory], new.get(path) or new[memory]
        elif path[:3] in none and path[3:]:
            continue
        if not _same(before, after):
            apply = apply_class(path)
            yield Change(dotted(path), apply, *_both(before, after), SIGNS[apply])


_NOTHING = Setting(None)


def _same(before: Setting, after: Setting) -> bool:
    if isinstance(before.value, Source) and isinstance(after.value, Source):
        return (before.value.kind, before.value.ref) == (after.value.kind, after.value.ref)
    return bool(before == after)


def _both(before: Setting, after: Setting) -> tuple[str, str]:
    if is_secret(before) and is_secret(after):
        return _said(before), f"another {_said(after)}"
    return _said(before), _said(after)


def _said(setting: Setting) -> str:
    """A value in a few words."""
    return _text(setting.data)


def _text(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case dict():
            return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
    # Paths are long, and their ends tell them apart.
    return show(value) if len(str(value)) <= 60 or not str(value).startswith("/") else str(value)
