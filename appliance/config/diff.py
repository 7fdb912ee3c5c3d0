"""The difference between two deployments as a Plan: what changes, and what has to happen for it. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from appliance.config.deployment import Alias, CachePolicy, Deployment, Family, ModelSpec, Overlay, Policy
from appliance.config.policy import show
from appliance.config.units import show_bytes, show_duration, show_tokens
from appliance.vocab.request import SamplingPatch

Apply = Literal["live", "cache", "engine", "listener", "process"]

APPLY: Mapping[str, Apply] = {
    "version": "live",
    "server.listen": "listener",
    "server": "live",
    "memory": "live",
    "engine.blas": "engine",
    "engine.stall_target": "live",
    "defaults.dtype": "engine",
    "defaults": "live",
    "profiles": "live",
    "aliases": "live",
    "cache.*.prefix": "cache",
    "cache.*.prefix.memory": "live",
    "models.*": "live",
    "models.*.source": "engine",
    "models.*.revision": "engine",
    "models.*.dtype": "engine",
    "models.*.trust_remote_code": "engine",
}
"""What a change of a setting, or of anything below it, needs; `*` is any name. The schema says the same."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, with its values as a user would write them."""

    path: str
    apply: Apply
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} > {self.after}"


@dataclass(frozen=True, slots=True)
class AddModel:
    name: str

    def __str__(self) -> str:
        return f"+ models.{self.name}"


@dataclass(frozen=True, slots=True)
class RemoveModel:
    name: str

    def __str__(self) -> str:
        return f"- models.{self.name}"


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """`apply` is the strongest class of its changes: `engine` means another engine, `cache` another KV store."""

    name: str
    apply: Apply
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        return "\n".join(f"{SIGNS[change.apply]} {change}" for change in self.changes)


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """A change outside `models`. One of class `engine` concerns every engine."""

    change: Change

    @property
    def apply(self) -> Apply:
        return self.change.apply

    def __str__(self) -> str:
        return f"{SIGNS[self.change.apply]} {self.change}"


Action = AddModel | RemoveModel | ChangeModel | ChangeSetting

SIGNS: Mapping[Apply, str] = {"live": "~", "cache": "~!", "engine": "~!", "listener": "!!", "process": "!!"}
_STRENGTH: tuple[Apply, ...] = ("live", "cache", "engine", "listener", "process")


@dataclass(frozen=True, slots=True)
class Plan:
    """What turns one deployment into another; empty for equal ones."""

    actions: tuple[Action, ...]

    def __bool__(self) -> bool:
        return bool(self.actions)

    def __str__(self) -> str:
        return "\n".join(str(action) for action in self.actions)


def diff(old: Deployment, new: Deployment) -> Plan:
    """Models first (gone, new, changed), then everything else, each in the order of its name."""
    if old == new:
        return Plan(())
    kept = sorted(old.models.keys() & new.models.keys())
    actions: list[Action] = [RemoveModel(name) for name in sorted(old.models.keys() - new.models.keys())]
    actions += [AddModel(name) for name in sorted(new.models.keys() - old.models.keys())]
    actions += [a for name in kept if (a := _model(old.models[name], new.models[name])) is not None]
    actions += [ChangeSetting(change) for change in _changes(_settings(old), _settings(new))]
    return Plan(tuple(actions))


def apply_class(path: str) -> Apply:
    """What a change at a dotted path, `*` for names, needs: as the nearest row above it says."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        if (row := APPLY.get(".".join(parts[:end]))) is not None:
            return row
    raise KeyError(path)


def _model(old: ModelSpec, new: ModelSpec) -> ChangeModel | None:
    changes = list(_changes(_of_model(old), _of_model(new)))
    if old.fingerprint != new.fingerprint and all(change.apply != "engine" for change in changes):
        changes.append(Change(f"models.{new.name}.source", "engine", show(old.source.text), "its files changed"))
    if not changes:
        return None
    strongest = max((change.apply for change in changes), key=_STRENGTH.index)
    return ChangeModel(new.name, strongest, tuple(changes))


Settings = Mapping[tuple[str, ...], Any]
"""Values by path. The generic path is the same with the names of entities replaced by `*`."""


def _changes(old: Settings, new: Settings) -> Iterator[Change]:
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            yield Change(
                ".".join(path), _class_of(path, before, after), _written(path, before), _written(path, after)
            )


def _class_of(path: tuple[str, ...], before: Any, after: Any) -> Apply:
    match path:
        case ("cache", _):
            kinds = {policy.prefix_bytes > 0 for policy in (before, after) if isinstance(policy, CachePolicy)}
            return apply_class("cache.*.prefix" if len(kinds) > 1 else "cache.*.prefix.memory")
        case ("models" | "aliases" | "profiles" as kind, _, *rest):
            return apply_class(".".join((kind, "*", *rest)))
    return apply_class(".".join(path))


def _of_model(model: ModelSpec) -> Settings:
    values = {
        "source": f"{model.source.kind}:{model.source.ref}",
        "revision": model.source.revision,
        "dtype": model.dtype,
        "trust_remote_code": model.trust_remote_code,
        "load": model.load,
        "pin": model.pin,
        "idle_unload": model.idle_unload,
        "context": model.context,
        "concurrency": model.concurrency,
        "cache": model.cache.name,
        "load_timeout": model.load_timeout,
        "profile": model.profile,
        "family": model.family,
        "checkpoint": model.checkpoint,
        "sampling": model.own.sampling,
        "template": model.own.template,
        "template.file": model.template_text,
        "policy": model.own.policy,
    }
    return {("models", model.name, key): value for key, value in values.items()}


def _settings(deployment: Deployment) -> Settings:
    server, engine = deployment.server, deployment.engine
    out: dict[tuple[str, ...], Any] = {
        ("server", "listen"): server.listen,
        ("server", "request_timeout"): server.request_timeout,
        ("server", "first_token_timeout"): server.first_token_timeout,
        ("server", "idle_timeout"): server.idle_timeout,
        ("server", "drain_timeout"): server.drain_timeout,
        ("server", "heartbeat"): server.heartbeat,
        ("server", "max_body"): server.max_body,
        ("server", "unknown_fields"): server.unknown_fields,
        ("server", "reload", "watch"): server.watch,
        ("server", "reload", "quiet"): server.quiet,
        ("engine", "blas"): engine.blas,
        ("engine", "stall_target"): engine.stall_target,
        ("memory", "budget"): deployment.memory.budget,
        ("defaults", "sampling"): deployment.defaults.sampling,
        ("defaults", "template"): deployment.defaults.template,
        ("defaults", "policy"): deployment.defaults.policy,
    }
    out |= {("profiles", name): profile for name, profile in deployment.profiles.items()}
    out |= {("aliases", name): alias for name, alias in deployment.aliases.items()}
    return out | {("cache", name): cache for name, cache in deployment.caches.items()}


def _written(path: tuple[str, ...], value: Any) -> str:
    """A value as it would stand in the file at this path."""
    match path[-1], value:
        case "max_body" | "budget", int():
            return show_bytes(value)
        case "context", int():
            return show_tokens(value)
        case _, float():
            return show_duration(value)
    return _said(value)


def _said(value: Any) -> str:
    """A value in a few words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value or len(value) > 60:
            return f"{value.splitlines()[0][:40]}... ({len(value)} characters)"
        case Family():
            return value.name
        case CachePolicy():
            return show_bytes(value.prefix_bytes) if value.prefix_bytes else "none"
        case SamplingPatch():
            return _said(value.given())
        case Alias():
            return " ".join(
                filter(None, (value.model, *value.profiles, "hidden" if value.hidden else "", _own(value)))
            )
        case Overlay():
            return _own(value) or "empty"
        case Policy():
            return _said({k: v for k in ("lock", "clamp", "forbid") if (v := getattr(value, k))})
        case Mapping():
            return "{" + ", ".join(f"{k}: {_said(v)}" for k, v in value.items()) + "}"
        case tuple() | list():
            return "[" + ", ".join(_said(v) for v in value) + "]"
    return show(value)


def _own(value: Alias | Overlay) -> str:
    own = value.own if isinstance(value, Alias) else value
    parts = {"sampling": own.sampling.given(), "template": own.template, "policy": own.policy}
    return " ".join(f"{key} {_said(part)}" for key, part in parts.items() if part and part != Policy())
