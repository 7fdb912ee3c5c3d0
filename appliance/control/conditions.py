"""What is so about each model, since when; and what is missing before a generation has converged. PURE."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.control.residency import IN_MEMORY
from appliance.control.status import Condition, ModelStatus


@dataclass(frozen=True, slots=True)
class Standing:
    """A condition as of `generation`; it has been so `since`, in Unix seconds."""

    condition: Condition
    since: float
    generation: int


Standings = Mapping[str, tuple[Standing, ...]]
"""By model."""


def follow(before: Standings, models: Iterable[ModelStatus], generation: int, now: float) -> Standings:
    """The conditions now; those that say what they said before keep their time."""
    return {
        model.name: tuple(_standing(before.get(model.name, ()), c, generation, now) for c in model.conditions)
        for model in models
        if not model.retired
    }


def _standing(before: tuple[Standing, ...], condition: Condition, generation: int, now: float) -> Standing:
    for known in before:
        old = known.condition
        if (old.name, old.holds, old.reason) == (condition.name, condition.holds, condition.reason):
            return Standing(condition, known.since, generation)
    return Standing(condition, now, generation)


def changes(before: Standings, now: Standings) -> list[tuple[str, str, str, str]]:
    """What of this is news: event, model, reason and message. A model seen for the first time has not recovered."""
    return [
        (event, model, new.reason, new.message)
        for model, standings in now.items()
        for event, new in _news({s.condition.name: s.condition for s in before.get(model, ())}, standings)
    ]


def _news(before: Mapping[str, Condition], now: Iterable[Standing]) -> Iterable[tuple[str, Condition]]:
    for standing in now:
        new, old = standing.condition, before.get(standing.condition.name)
        if old is not None and (old.holds, old.reason) == (new.holds, new.reason):
            continue
        match new.name, new.holds, new.reason:
            case "Ready", True, "Loaded":
                yield "model.ready", new
            case "Ready", False, "Failed":
                yield "model.load_failed", new
            case "Degraded", True, _:
                yield "model.degraded", new
            case "Degraded", False, _ if old is not None:
                yield "model.recovered", new


@dataclass(frozen=True, slots=True)
class Missing:
    """Why the deployment has not converged; `final` where waiting cannot help."""

    model: str
    why: str
    final: bool = False

    def __str__(self) -> str:
        return f"{self.model} {self.why}"


def missing(models: Iterable[ModelStatus]) -> tuple[Missing, ...]:
    """What a deployment asks for and does not have yet; empty when converged.

    A model that loads because a request wants it, or failed to, does not count: the deployment did not ask for it.
    """
    return tuple(found for model in models if (found := _missing(model)) is not None)


def _missing(model: ModelStatus) -> Missing | None:
    if model.retired:
        return Missing(model.name, _leaving(model)) if model.state in IN_MEMORY else None
    said = {condition.name: condition for condition in model.conditions}
    degraded, ready = said["Degraded"], said["Ready"]
    if degraded.reason == "RolledBack":
        return Missing(model.name, degraded.message, final=True)
    if not model.wanted:
        return None
    if degraded.holds:
        return Missing(model.name, f"failed: {degraded.message}", final=degraded.reason == "PermanentFailure")
    return Missing(model.name, f"is not ready: {ready.message or ready.reason}")


def _leaving(model: ModelStatus) -> str:
    requests = f", still answering {model.leases}" if model.leases else ""
    return f"of an earlier generation is ending{requests}"
