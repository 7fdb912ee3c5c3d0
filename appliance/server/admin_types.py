"""What admin requests and answers hold; the OpenAPI document is made from these types."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from appliance.config.deployment import Deployment
from appliance.config.problem import Problem, as_data
from appliance.config.render import Estimate, render, weigh
from appliance.config.render import as_data as as_plan
from appliance.control.conditions import Standing
from appliance.control.demand import spare_bytes
from appliance.control.journal import Generation
from appliance.control.residency import IN_MEMORY
from appliance.control.running import Outcome, Proposal
from appliance.control.spare import SpareStatus
from appliance.control.status import ModelStatus
from appliance.server.decisions import Decision
from appliance.server.reused import Reused
from appliance.vocab.gauges import Gauges


class ProblemAnswer(Struct, frozen=True):
    """What is wrong with a deploy file, and where; lines and columns count from 1."""

    code: str
    severity: Literal["error", "warning"]
    file: str
    line: int
    column: int
    end_column: int
    path: str
    message: str
    hint: str


class ConditionAnswer(Struct, frozen=True):
    """Resolved, Downloaded, Loaded, Ready or Degraded; `since` is Unix seconds."""

    type: str
    status: bool
    reason: str
    message: str
    since: float
    generation: int


class Progress(Struct, frozen=True):
    """`total` is 0 where it is not known."""

    phase: str
    done: float
    total: float


class ModelAnswer(Struct, frozen=True):
    """One model, or one engine of an earlier generation on its way out (`retired`).

    `bytes` is what the weights of its engine take, expected or measured, `taken` what its process takes now,
    `gauges` what it told of itself last, `idle_left` seconds until it is unloaded, if that clock runs, `drift` what
    differs from the deploy file. Where requests wait, `waits_for` says what for, and `position` the place in line of
    the models that wait for memory.
    """

    name: str
    state: Literal["cold", "loading", "ready", "draining"]
    pid: int | None
    leases: int
    waiting: int
    idle_left: float | None
    bytes: int
    retired: bool
    load: Progress | None
    download: Progress | None
    conditions: list[ConditionAnswer]
    taken: int | None = None
    gauges: Gauges | None = None
    drift: list[str] = []
    position: int | None = None
    waits_for: str = ""


class ReloadAnswer(Struct, frozen=True):
    """What became of the last look at the file; `time` is Unix seconds."""

    status: Literal["applied", "unchanged", "rejected"]
    generation: int
    time: float
    message: str
    problems: list[ProblemAnswer]


class Convergence(Struct, frozen=True):
    """`missing` says what the running generation asks for and does not have yet; `final` that waiting is no use."""

    converged: bool
    missing: list[str]
    final: bool


class SpareAnswer(Struct, frozen=True):
    """The blank engine process. `seconds` is what its start took, `null` before it is warm; `taken` bytes of memory.
    `adopted` loads were given one so far, and waited `saved` seconds less in all.
    """

    pid: int | None
    seconds: float | None
    taken: int | None
    adopted: int
    saved: float


class MemoryStanding(Struct, frozen=True):
    """Bytes. `planned` is what engines in memory and the spare are expected to take, or took when measured, `taken`
    what their processes take now; `kv_reserve` is the part of `budget` that no weights may take.
    """

    budget: int
    kv_reserve: int
    planned: int
    taken: int


class StatusAnswer(Struct, frozen=True):
    """The whole appliance. `not_ready` says why readiness is refused, `started` is Unix seconds, `socket` where this
    is asked; `recent` are the latest events, newest first.
    """

    version: str
    pid: int
    started: int
    file: str
    socket: str
    generation: int
    file_matches_running: bool
    last_reload: ReloadAnswer
    convergence: Convergence
    ready: bool
    not_ready: list[str]
    draining: bool
    in_flight: int
    pending_restart: list[str]
    models: list[ModelAnswer]
    spare: SpareAnswer | None = None
    memory: MemoryStanding | None = None
    recent: list[dict[str, Any]] = []


class ConfigAnswer(Struct, frozen=True):
    """The running deployment with every default written out; secrets are replaced by their type."""

    generation: int
    digest: str
    files: list[str]
    resolved: dict[str, Any]


class ChangeAnswer(Struct, frozen=True):
    """One setting: `+` comes, `-` goes, `~` live, `~!` a cache or an engine is rebuilt, `!!` needs a restart."""

    sign: str
    path: str
    apply: Literal["live", "cache", "engine", "listener", "process"]
    before: str | None
    after: str | None


class MemoryAnswer(Struct, frozen=True):
    """Bytes of all engines; `room` is what they may take, `unknown` models are not counted.

    `reckoned` are new models that are not here yet, with what the catalogue says they take.
    """

    before: int
    peak: int
    after: int
    room: int
    unknown: list[str]
    reckoned: dict[str, int]


class PlanAnswer(Struct, frozen=True):
    """What a document would change; `id` names exactly this change to exactly this generation.

    `engines` are names by what becomes of them, `in_flight` running requests by model, `text` says all of it.
    """

    id: str
    generation: int
    digest: str
    empty: bool
    changes: list[ChangeAnswer]
    engines: dict[str, list[str]]
    in_flight: dict[str, int]
    memory: MemoryAnswer
    text: str
    warnings: list[ProblemAnswer]


class ReloadBody(Struct, frozen=True, forbid_unknown_fields=True):
    """`plan` is the id of the only plan to carry out."""

    plan: str | None = None


class RollbackBody(Struct, frozen=True, forbid_unknown_fields=True):
    generation: int


class AppliedAnswer(Struct, frozen=True):
    """A reload or a rollback; `convergence` where it was waited for."""

    reload: ReloadAnswer
    convergence: Convergence | None


class GenerationAnswer(Struct, frozen=True):
    """A kept generation; `changes` are the lines of the plan that led to it."""

    number: int
    time: float
    cause: str
    digest: str
    running: bool
    changes: list[str]


class GenerationsAnswer(Struct, frozen=True):
    """Newest first."""

    generations: list[GenerationAnswer]


class GenerationDetail(Struct, frozen=True):
    generation: GenerationAnswer
    files: list[str]
    resolved: dict[str, Any]


class ErrorObject(Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(Struct, frozen=True):
    """`problems` where a file was refused."""

    error: ErrorObject
    problems: list[ProblemAnswer] = []


class ReusedAnswer(Struct, frozen=True):
    """How much of one prompt was cached, and why no more; `time` is Unix seconds, `request` its id.

    whole: all that may be, the last token is always computed. longer: the prompt goes on where what is stored ends.
    differs: after `shared` tokens it goes on with `asked_token` where `stored_token` is stored. uncut: the same, or
    more is stored, but the model's kind of cache cannot be cut back to that. new: nothing stored begins like it. off:
    this model keeps no prefixes.
    """

    request: str
    time: float
    key: str | None
    prompt_tokens: int
    cached_tokens: int
    reason: str
    shared: int
    asked_token: int | None
    asked_text: str
    stored_token: int | None
    stored_text: str


class DecisionAnswer(Struct, frozen=True):
    """Where one request went. `asked` is the name it asked for, `served_by` the model that was tried last, `rule` is
    null where the name alone decided, `time` Unix seconds; `changes` is what made it go elsewhere afterwards.
    """

    id: str
    time: float
    endpoint: str
    key: str | None
    asked: str
    rule: str | None
    reasons: list[str]
    served_by: str
    fallbacks: list[str]
    changes: list[str]


class DecisionsAnswer(Struct, frozen=True):
    """The latest, newest first."""

    decisions: list[DecisionAnswer]


class CacheAnswer(Struct, frozen=True):
    """Newest first."""

    requests: list[ReusedAnswer]


class Accepted(Struct, frozen=True):
    """It is being done."""

    accepted: bool = True


def problem(found: Problem) -> ProblemAnswer:
    return ProblemAnswer(**as_data(found))


def spare(status: SpareStatus | None) -> SpareAnswer | None:
    if status is None:
        return None
    return SpareAnswer(status.pid, status.seconds, status.taken, status.adopted, status.saved)


def memory(deployment: Deployment, models: Sequence[ModelStatus], spare: SpareStatus | None) -> MemoryStanding:
    """Models that share an engine count once."""
    engines = {model.fingerprint: model for model in models if model.state in IN_MEMORY}.values()
    return MemoryStanding(
        budget=deployment.memory.budget,
        kv_reserve=deployment.memory.kv_reserve,
        planned=sum(engine.bytes for engine in engines) + (spare_bytes(deployment) if spare else 0),
        taken=sum(engine.taken or 0 for engine in engines) + (spare.taken or 0 if spare else 0),
    )


def reload(outcome: Outcome) -> ReloadAnswer:
    problems = [problem(found) for found in outcome.problems]
    return ReloadAnswer(outcome.status, outcome.generation, outcome.time, outcome.message, problems)


def plan(proposal: Proposal, models: Sequence[ModelStatus], estimate: Estimate) -> PlanAnswer:
    """The plan beside what the engines are doing."""
    loaded = {model.name for model in models if model.state in IN_MEMORY and not model.retired}
    in_flight = {model.name: model.leases for model in models if model.leases and not model.retired}
    spare = spare_bytes(proposal.deployment)
    memory = weigh(proposal.before, proposal.deployment, estimate, loaded, spare)
    return msgspec.convert(
        {
            "id": proposal.id,
            "generation": proposal.base,
            "digest": proposal.deployment.digest,
            **as_plan(proposal.plan, memory, in_flight),
            "text": render(proposal.plan, memory, in_flight),
            "warnings": [as_data(found) for found in proposal.deployment.warnings],
        },
        PlanAnswer,
    )


def decision(each: Decision) -> DecisionAnswer:
    return msgspec.convert(each, DecisionAnswer, from_attributes=True)


def reused(each: Reused) -> ReusedAnswer:
    told, started = each.reuse, each.started
    return ReusedAnswer(
        request=each.id,
        time=each.time,
        key=each.key,
        prompt_tokens=started.prompt_tokens,
        cached_tokens=started.cached_tokens,
        reason=told.reason,
        shared=told.shared,
        asked_token=told.asked,
        asked_text=told.asked_text,
        stored_token=told.stored,
        stored_text=told.stored_text,
    )


def model(status: ModelStatus, standings: tuple[Standing, ...]) -> ModelAnswer:
    return ModelAnswer(
        name=status.name,
        state=status.state.value,
        pid=status.pid,
        leases=status.leases,
        waiting=status.waiting,
        idle_left=status.idle_left,
        bytes=status.bytes,
        retired=status.retired,
        load=Progress(status.load[0], status.load[1], 1.0) if status.load else None,
        download=Progress(*status.download) if status.download else None,
        conditions=[_condition(standing) for standing in standings],
        taken=status.taken,
        gauges=status.gauges,
        drift=list(status.drift),
        position=status.standing.position if status.standing else None,
        waits_for=status.standing.reason if status.standing else "",
    )


def _condition(standing: Standing) -> ConditionAnswer:
    said = standing.condition
    return ConditionAnswer(said.name, said.holds, said.reason, said.message, standing.since, standing.generation)


def generation(kept: Generation, running: int) -> GenerationAnswer:
    number = kept.number
    return GenerationAnswer(number, kept.time, kept.cause, kept.digest, number == running, list(kept.changes))
