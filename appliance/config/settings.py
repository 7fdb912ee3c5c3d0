"""A deployment as settings by their paths in the file: what plans compare and `config --resolved` shows. PURE."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.config.access import Key
from appliance.config.deployment import Alias, CachePolicy, Deployment, ModelSpec, Overlay, Source
from appliance.config.operations import Observability
from appliance.config.problem import Path
from appliance.config.routing import Fallback, Goal, Peer, Routing, Rule
from appliance.config.secret import Secret
from appliance.config.units import (
    Bound,
    Rate,
    Window,
    show_duration,
    show_rate,
    show_size,
    show_tokens,
    show_window,
)

ENTITIES: tuple[tuple[str, ...], ...] = (
    ("profiles",),
    ("aliases",),
    ("cache",),
    ("security", "keys"),
    ("routing", "rules"),
    ("routing", "fallback"),
    ("routing", "peers"),
)
"""What is made of named things besides models: one comes and goes as a whole."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value with the way it is written; only the value counts when two are compared."""

    value: Any
    show: Callable[[Any], Any] = field(default=lambda value: value, compare=False)

    @property
    def data(self) -> Any:
        """The value as a file would have it, in JSON's types; a secret is covered."""
        return plain(self.show(self.value)) if self.value is not None else None


Settings = dict[Path, Setting]


def entity(path: Path) -> Path | None:
    """The path of the named thing a setting belongs to, where it belongs to one that is not a model."""
    return next((path[: len(kind) + 1] for kind in ENTITIES if path[: len(kind)] == kind), None)


def plain(value: Any) -> Any:
    """In JSON's types. Only what is known to be harmless is shown as it is."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case frozenset() | set():
            return sorted(map(plain, value))
        case tuple() | list():
            return [plain(item) for item in value]
        case Rate():
            return show_rate(value)
        case Window():
            return show_window(value)
        case Bound():
            return str(value)
        case Source():
            return value.ref if value.kind in ("path", "gguf") else value.text
    return str(value)


def settings(deployment: Deployment) -> Settings:
    """Every setting of a deployment, with defaults in their places."""
    out: Settings = {}
    for path, setting in _all(deployment):
        out[path] = setting if isinstance(setting, Setting) else Setting(setting)
    return out


def of_rest(deployment: Deployment) -> Settings:
    """Every setting outside `models`."""
    return settings(replace(deployment, models={}))


def of_model(model: ModelSpec) -> Settings:
    """The settings of one model."""
    return {
        path: value if isinstance(value, Setting) else Setting(value)
        for path, value in _under(("models", model.name), _model(model))
    }


Rows = Iterator[tuple[Path, Any]]


def _all(deployment: Deployment) -> Rows:
    yield from _under(("server",), _server(deployment))
    security, routing, observability = deployment.security, deployment.routing, deployment.observability
    yield ("security", "loopback_without_key"), security.loopback_without_key
    for key in security.keys.values():
        yield from _under(("security", "keys", key.name), _key(key))
    yield from _under(("memory",), _memory(deployment))
    engine = deployment.engine
    yield ("engine", "blas"), engine.blas
    yield ("engine", "stall_target"), _seconds(engine.stall_target)
    yield ("engine", "spare"), engine.spare
    yield from _under(("defaults",), _overlay(deployment.defaults))
    for name, profile in deployment.profiles.items():
        yield from _under(("profiles", name), _overlay(profile), empty=True)
    for model in deployment.models.values():
        yield from _under(("models", model.name), _model(model))
    for alias in deployment.aliases.values():
        yield from _under(("aliases", alias.name), _alias(alias))
    yield from _under(("routing",), _routing(routing))
    for cache in deployment.caches.values():
        yield from _under(("cache", cache.name), _cache(cache))
    storage = deployment.storage
    yield ("storage", "models"), storage.models
    yield ("storage", "max"), _bytes(storage.max_bytes)
    yield ("storage", "offline"), storage.offline
    for i, hook in enumerate(deployment.hooks):
        yield ("hooks", i, "event"), hook.event
        yield ("hooks", i, "run"), hook.run
        yield ("hooks", i, "timeout"), _seconds(hook.timeout)
    yield from _under(("observability",), _observability(observability))


def _under(path: Path, rows: Rows, *, empty: bool = False) -> Rows:
    """The rows below a path; an entity without any is there all the same."""
    for rest, value in rows:
        yield (*path, *rest), value
        empty = False
    if empty:
        yield path, {}


def _server(deployment: Deployment) -> Rows:
    server = deployment.server
    yield ("listen",), Setting(server.listen, lambda listen: [str(address) for address in listen])
    for name in ("request_timeout", "first_token_timeout", "idle_timeout", "drain_timeout", "heartbeat"):
        yield (name,), _seconds(getattr(server, name))
    yield ("max_body",), _bytes(server.max_body)
    yield ("unknown_fields",), server.unknown_fields
    yield ("reload", "watch"), server.watch
    yield ("reload", "quiet"), _seconds(server.quiet)
    for name in ("cert", "key", "client_ca"):
        yield ("tls", name), getattr(server.tls, name, None)
    for name in ("apis", "time_zone", "cors", "trusted_hosts"):
        yield (name,), getattr(server, name)


def _memory(deployment: Deployment) -> Rows:
    memory = deployment.memory
    for name in ("budget", "keep_free", "kv_reserve"):
        yield (name,), _bytes(getattr(memory, name))
    yield ("max_loaded",), memory.max_loaded
    yield ("exclusive",), Setting(memory.exclusive, lambda groups: [sorted(group) for group in groups])
    yield ("queue", "max"), memory.queue.max
    yield ("queue", "max_bytes"), Setting(memory.queue.max_bytes, show_size)
    for name in ("max_wait", "min_resident", "starve_after"):
        yield ("queue", name), _seconds(getattr(memory.queue, name))


def _overlay(overlay: Overlay) -> Rows:
    for name, value in overlay.sampling.given().items():
        yield ("sampling", name), value
    for name, value in overlay.template.items():
        yield ("template", name), value
    policy = overlay.policy
    for kind, rules in (("lock", policy.lock), ("clamp", policy.clamp), ("forbid", policy.forbid)):
        for name, value in rules.items():
            yield ("policy", kind, name), value


def _model(model: ModelSpec) -> Rows:
    yield ("source",), model.source
    yield ("revision",), model.source.revision if model.source.kind == "hf" else None
    yield ("family",), model.family.name
    yield ("dialects", "tools"), model.family.tool_dialect
    yield ("dialects", "reasoning"), model.family.reasoning_dialect
    for name in ("extends", "kind", "load", "pin", "dtype"):
        yield (name,), getattr(model, name)
    yield ("idle_unload",), _seconds(model.idle_unload)
    yield ("context",), Setting(model.context, show_tokens)
    yield ("max_kv",), Setting(model.max_kv, show_tokens) if model.max_kv is not None else None
    yield ("concurrency",), model.concurrency
    yield ("cache",), model.cache.name
    yield ("load_timeout",), _seconds(model.load_timeout)
    yield ("retry_load", "first"), _seconds(model.retry_load.first)
    yield ("retry_load", "max"), _seconds(model.retry_load.max)
    yield ("retry_load", "tries"), model.retry_load.tries
    yield ("profile",), model.profile
    yield ("trust_remote_code",), model.trust_remote_code
    for part, names in _PARTS.items():
        for name in names:
            value = getattr(getattr(model, part), name, None)
            yield (part, name), value if value != "" else None
    yield ("warm",), Setting(model.warm, lambda texts: [_excerpt(text) for text in texts])
    for name, directory in model.adapters.items():
        yield ("adapters", name), directory
    yield ("template", "file"), Setting(model.template_text, _excerpt)
    yield from _overlay(model.own)


_PARTS = {
    "kv": ("bits", "group", "from_token"),
    "quantize": ("bits", "group"),
    "speculative": ("kind", "draft", "depth", "max_batch"),
}


def _alias(alias: Alias) -> Rows:
    yield ("model",), alias.model
    yield ("profile",), alias.profiles[0] if len(alias.profiles) == 1 else alias.profiles or None
    yield ("adapter",), alias.own.adapter
    yield ("hidden",), alias.hidden
    yield from _overlay(alias.own)


def _cache(cache: CachePolicy) -> Rows:
    if not cache.prefix_bytes and not cache.disk_bytes:
        yield ("prefix",), "none"
    else:
        yield ("prefix", "memory"), _bytes(cache.prefix_bytes)
        yield ("prefix", "disk"), _bytes(cache.disk_bytes or None)
        yield ("prefix", "path"), cache.path if cache.disk_bytes else None
        yield ("prefix", "ttl"), _seconds(cache.ttl)
        for name in ("bits", "group"):
            yield ("prefix", name), getattr(cache.stored, name, None)
    yield ("share",), cache.share


def _key(key: Key) -> Rows:
    yield ("secret",), key.secret
    yield ("allow",), key.allow
    for name in ("requests", "tokens", "concurrent"):
        yield ("limits", name), getattr(key.limits, name)
    yield ("limits", "daily_tokens"), Setting(key.limits.daily_tokens, show_tokens)
    for name in ("priority", "egress", "expires", "strict_params"):
        yield (name,), getattr(key, name)
    yield ("keep_alive", "max"), _seconds(key.keep_alive_max)
    yield from _overlay(Overlay(policy=key.policy))


def _routing(routing: Routing) -> Rows:
    yield ("unknown_model",), routing.unknown_model or "reject"
    yield ("virtual",), routing.virtual
    for i, rule in enumerate(routing.rules):
        yield from _under(("rules", rule.name), _rule(rule, i))
    for name, fallback in routing.fallback.items():
        yield from _under(("fallback", name), _fallback(fallback))
    for name, peer in routing.peers.items():
        yield from _under(("peers", name), _peer(peer))


def _rule(rule: Rule, place: int) -> Rows:
    when = rule.when
    yield ("place",), place + 1
    for name in ("model", "prompt_tokens", "key", "time", "endpoint", "warm"):
        yield ("when", name), getattr(when, name)
    yield ("when", "has"), when.has or None
    yield ("when", "effort"), when.effort or None
    for header, value in when.header.items():
        yield ("when", "header", header), value
    for name in ("queue", "load", "state"):
        for model, asked in getattr(when, name).items():
            yield ("when", name, model), asked
    yield ("use",), Setting(rule.use, lambda goals: [_goal(goal, rule.weighted) for goal in goals])
    yield ("prefer",), rule.prefer
    yield ("sticky",), rule.sticky


def _goal(goal: Goal, weighted: bool) -> Any:
    laid: dict[str, Any] = {}
    for path, value in _overlay(goal.own):
        into = laid
        for part in path[:-1]:
            into = into.setdefault(str(part), {})
        into[str(path[-1])] = plain(value)
    more = ({"weight": goal.weight} if weighted else {}) | ({"profile": goal.profile} if goal.profile else {}) | laid
    return {"to": goal.to, **more} if more else goal.to


def _fallback(fallback: Fallback) -> Rows:
    yield ("to",), fallback.to
    yield ("when",), fallback.when
    yield ("trip",), fallback.trip
    yield ("dwell",), _seconds(fallback.dwell)


def _peer(peer: Peer) -> Rows:
    yield ("url",), peer.url
    yield ("key",), peer.key
    yield ("api",), peer.api
    yield ("timeout",), _seconds(peer.timeout)
    yield ("retries",), peer.retries
    yield ("health",), _seconds(peer.health)


def _observability(found: Observability) -> Rows:
    for name in ("level", "format", "bodies"):
        yield ("log", name), getattr(found, name)
    yield ("metrics", "path"), found.metrics_path
    yield ("traces", "otlp"), found.otlp
    yield ("traces", "sample"), found.sample
    yield ("dashboard", "path"), found.dashboard_path


def _seconds(value: float) -> Setting:
    return Setting(value, show_duration)


def _bytes(value: int | None) -> Setting:
    return Setting(value, show_size)


def _excerpt(text: str) -> str:
    """A text of a file in a few words."""
    if "\n" not in text and len(text) <= 60:
        return text
    return f"{text.splitlines()[0][:40]}... ({len(text)} characters)"


def is_secret(setting: Setting) -> bool:
    return isinstance(setting.value, Secret)
