"""What surrounds serving: storage, hooks, log, metrics, traces and dashboard, as frozen types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from appliance.config.layers import EMPTY

if TYPE_CHECKING:
    from appliance.config.world import Notes, World


Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]
API = (
    "/v1", "/api", "/healthz", "/health", "/readyz", "/version", "/tokenize", "/detokenize", "/openapi.json", "/docs",
)  # fmt: skip
"""Where the paths of the API begin, beside `/` itself."""


@dataclass(frozen=True, slots=True)
class Storage:
    """`models` is an absolute directory, `named` where it is not our own one. `max_bytes` None has no end."""

    models: str = ""
    max_bytes: int | None = None
    offline: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class Hook:
    """A program run on an event, for `timeout` seconds at most."""

    event: str
    run: tuple[str, ...]
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Observability:
    """`otlp` empty sends no traces; `sample` is the share of requests that are traced."""

    level: Level = "info"
    format: Format = "console"
    bodies: Literal["never", "errors", "always"] = "never"
    metrics_path: str = "/metrics"
    otlp: str = ""
    sample: float = 1.0
    dashboard_path: str = "/ui"


def storage(value: Mapping[str, Any], notes: "Notes", world: "World") -> Storage:
    default = world.own("models")
    directory = default
    if "models" in value:
        directory = world.path(value["models"], notes, ("storage", "models")) or default
    return Storage(
        models=directory,
        max_bytes=value.get("max"),
        offline=value.get("offline", False),
        named=directory != default,
    )


def hooks(value: list[Mapping[str, Any]]) -> tuple[Hook, ...]:
    whole = (hook for hook in value if {"event", "run"} <= hook.keys())
    return tuple(Hook(hook["event"], tuple(hook["run"]), hook.get("timeout", 30.0)) for hook in whole)


def observability(value: Mapping[str, Any], notes: "Notes") -> Observability:
    traces = value.get("traces", EMPTY)
    metrics, dashboard = _path(value, "metrics", "/metrics", notes), _path(value, "dashboard", "/ui", notes)
    if metrics == dashboard:
        pair = ("dashboard", "metrics")
        there, other = pair if "path" in value.get("dashboard", EMPTY) else reversed(pair)
        said = f"{metrics} is observability.{other}.path, too"
        notes.say("E240", ("observability", there, "path"), said, "give each a path of its own")
    return Observability(
        **value.get("log", EMPTY),
        metrics_path=metrics,
        otlp=traces.get("otlp", ""),
        sample=float(traces.get("sample", 1.0)),
        dashboard_path=dashboard,
    )


def _path(value: Mapping[str, Any], name: str, default: str, notes: "Notes") -> str:
    """Where the file puts a page, without a slash at the end; nothing of the API may be there."""
    path = str(value.get(name, EMPTY).get("path", default)).rstrip("/")
    taken = next((route for route in API if path == route or path.startswith(f"{route}/")), None)
    if taken is not None or not path:
        said = f"{path or '/'} would be in the way of the API's {taken or '/'}"
        notes.say("E240", ("observability", name, "path"), said, f"choose another one, like {default}")
    return path
