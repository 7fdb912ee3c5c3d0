"""How the state of every model is told to people, metrics and the readiness check. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from appliance.config.deployment import Deployment
from appliance.control import demand, line, overrides, rules
from appliance.control.line import Standing
from appliance.control.residency import Engine, EngineState, Registry
from appliance.vocab.gauges import Gauges
from appliance.vocab.spec import ModelInfo

MANY_DEATHS = 2
"""Deaths of an engine in a row, with nobody served in between, that are more than bad luck."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Resolved, Downloaded, Loaded, Ready or Degraded; `reason` is one word, `message` for people."""

    name: str
    holds: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of the process: its load as (phase, 0..1), a download as (phase, done, total), and the `gauges`
    it told last. `mismatches` say by model why its template and its dialects do not agree.
    """

    pid: int | None = None
    load: tuple[str, float] | None = None
    download: tuple[str, int, int] | None = None
    info: ModelInfo | None = None
    taken: int | None = None
    gauges: Gauges | None = None
    mismatches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model. `bytes` is what the weights of its engine take, as expected before they were measured; `taken` what
    its process takes now, `idle_left` seconds until it is unloaded. `drift` says what differs from the deploy file,
    `standing` where those stand who wait.

    Models sharing an engine show the same pid and `gauges`. `wanted` engines are loaded without a request that asks
    for them, `retired` ones are finishing requests of an earlier deployment.
    """

    name: str
    fingerprint: str
    state: EngineState
    pid: int | None
    leases: int
    waiting: int
    idle_left: float | None
    bytes: int
    taken: int | None
    gauges: Gauges | None
    wanted: bool
    retired: bool
    load: tuple[str, float] | None
    download: tuple[str, int, int] | None
    info: ModelInfo | None
    conditions: tuple[Condition, ...]
    drift: tuple[str, ...] = ()
    standing: Standing | None = None


def describe(
    state: Registry,
    deployment: Deployment | None,
    observed: Mapping[str, Observed],
    now: float,
) -> tuple[ModelStatus, ...]:
    """Every model of the deployment in its order, then engines on their way out."""
    names = demand.names(deployment) if deployment else {}
    back = {rolled.old.fingerprint: rolled.message for rolled in state.rolled.values()}
    shown = [
        _one(name, state.engines[fingerprint], observed[fingerprint], now, back.get(fingerprint))
        for name, fingerprint in ((name, state.names.get(name, asked)) for name, asked in names.items())
        if fingerprint in state.engines
    ]
    shown = [
        replace(
            status,
            drift=overrides.drift(state, status.name, now),
            standing=line.standing(state, state.engines[status.fingerprint], now),
        )
        for status in shown
    ]
    leaving = [e for e in state.engines.values() if e.retired]
    return (*shown, *(_one(e.want.model, e, observed[e.want.fingerprint], now) for e in leaving))


def _one(name: str, engine: Engine, seen: Observed, now: float, rolled_back: str | None = None) -> ModelStatus:
    return ModelStatus(
        name=name,
        fingerprint=engine.want.fingerprint,
        state=engine.state,
        pid=seen.pid,
        leases=len(engine.leases),
        waiting=len(engine.waiters),
        idle_left=rules.idle_left(engine, now),
        bytes=engine.bytes,
        taken=seen.taken,
        gauges=seen.gauges,
        wanted=engine.wanted,
        retired=engine.retired,
        load=seen.load,
        download=seen.download,
        info=seen.info,
        conditions=_conditions(engine, seen, rolled_back, seen.mismatches.get(name)),
    )


def _conditions(
    engine: Engine, seen: Observed, rolled_back: str | None, mismatch: str | None
) -> tuple[Condition, ...]:
    resolved = Condition("Resolved", not engine.retired, "Retired" if engine.retired else "Accepted")
    return (
        resolved,
        _downloaded(engine, seen),
        _loaded(engine),
        _ready(engine, seen),
        _degraded(engine, rolled_back, mismatch),
    )


def _downloaded(engine: Engine, seen: Observed) -> Condition:
    if engine.want.present:
        return Condition("Downloaded", True, "Present")
    if seen.download is None:
        return Condition("Downloaded", False, "Missing", "the files are fetched with the first request")
    phase, done, total = seen.download
    share = f" {done / total:.0%}" if total else ""
    return Condition("Downloaded", False, "Fetching", f"{phase}{share}")


def _loaded(engine: Engine) -> Condition:
    return Condition("Loaded", engine.state is EngineState.READY, engine.state.name.capitalize())


def _ready(engine: Engine, seen: Observed) -> Condition:
    """Whether a request that comes now is served without a wait for more than a load."""
    if engine.failure is not None:
        return Condition("Ready", False, "Failed", engine.failure.error.message)
    if not engine.want.present:
        return Condition("Ready", False, "NotDownloaded", _downloaded(engine, seen).message)
    match engine.state:
        case EngineState.READY:
            return Condition("Ready", True, "Loaded")
        case EngineState.LOADING:
            phase, share = seen.load or ("starting", 0.0)
            return Condition("Ready", False, "Loading", f"{phase} {share:.0%}")
        case EngineState.DRAINING:
            return Condition("Ready", False, "Stopping", "the engine is stopping")
        case EngineState.COLD if engine.wanted:
            return Condition("Ready", False, "Queued", "waiting for memory")
    return Condition("Ready", True, "OnDemand", "loaded with the first request")


def _degraded(engine: Engine, rolled_back: str | None, mismatch: str | None) -> Condition:
    if rolled_back is not None:
        return Condition("Degraded", True, "RolledBack", f"serves what it was before: {rolled_back}")
    if engine.failure is None:
        if engine.deaths >= MANY_DEATHS:
            return Condition("Degraded", True, "EngineDeaths", f"its engine died {engine.deaths} times in a row")
        if mismatch is not None:
            return Condition("Degraded", True, "DialectMismatch", mismatch)
        return Condition("Degraded", False, "NoFailure")
    reason = "PermanentFailure" if engine.failure.permanent else "TransientFailure"
    return Condition("Degraded", True, reason, engine.failure.error.message)
