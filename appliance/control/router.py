"""Which model a request goes to, which overlays apply to it, and where it goes when that model fails. PURE.

A name is looked for in this order: model, alias, virtual name (the first rule that holds), longest glob,
`routing.unknown_model`. The same facts always give the same route.
"""

import fnmatch
import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.config.condition import Condition
from appliance.config.deployment import Deployment, ModelSpec, Overlay, Target
from appliance.config.layers import empty
from appliance.config.peered import is_peer
from appliance.config.routing import Failure, Goal, Rule
from appliance.config.sampling import find, is_named, parted
from appliance.control.keys import permits
from appliance.errors import (
    ApplianceError,
    EgressDenied,
    LoadFailed,
    Overloaded,
    PeerFailed,
    PromptTooLong,
    SourceError,
    TimedOut,
    Unavailable,
    UnknownModel,
)


@dataclass(frozen=True, slots=True)
class ModelNow:
    """A model now: `waiting` requests wait for it or one of its rows, `load` is the share of its rows in use."""

    state: str = "cold"
    waiting: int = 0
    load: float = 0.0


IDLE = ModelNow()


@dataclass(frozen=True, slots=True)
class Facts:
    """What rules may look at. `headers` are by lower-case name, `minute` is that of the day in `server.time_zone`,
    `effort` is "" where none is asked for.

    `session` and `prefix` are texts that stay the same during a conversation, "" where unknown; `draw` is 0..1, new
    for each request. Models that are not in `now` are cold and idle; `down` are the peers that are not well.
    `prompt_tokens` is an estimate, and `scale` says by family how many tokens one of them has turned out to be. A
    request that is `local_only` may not leave this machine.
    """

    model: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=empty)
    has: frozenset[str] = frozenset()
    prompt_tokens: int = 0
    minute: int = 0
    endpoint: str = ""
    effort: str = ""
    session: str = ""
    prefix: str = ""
    draw: float = 0.0
    now: Mapping[str, ModelNow] = field(default_factory=empty)
    down: frozenset[str] = frozenset()
    scale: Mapping[str, float] = field(default_factory=empty)
    local_only: bool = False

    def of(self, model: str) -> ModelNow:
        """How this model is."""
        return self.now.get(model, IDLE)

    def warm(self, model: str) -> bool:
        """Whether it answers without being loaded first."""
        return self.of(model).state == "ready"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes. `rule` is None where a name alone decided; `reasons` are for people, in order."""

    target: Target
    rule: str | None = None
    fallbacks: tuple[Target, ...] = ()
    falls_when: frozenset[Failure] = frozenset()
    reasons: tuple[str, ...] = ()
    estimate: int = 0
    """Of the prompt's tokens, before any scale."""


def route(deployment: Deployment, facts: Facts) -> Route:
    """Raises UnknownModel where nothing answers to the name, or no rule holds for a virtual one, EgressDenied where
    only a peer could answer what may not leave.
    """
    name, _, profile = parted(deployment, facts.model)
    virtual = name in deployment.routing.virtual
    if virtual and name not in deployment.models and name not in deployment.aliases:
        chosen = _ruled(deployment, facts)
    elif deployment.routing.unknown_model and not is_named(deployment, name):
        chosen = _unknown(deployment, facts, profile)
    else:
        target = find(deployment, facts.model, lambda other: _may_be_told(deployment, facts, other))
        chosen = Route(target, reasons=(f"`{name}` is {_described(target, name)}",))
    if facts.local_only and is_peer(chosen.target.model):
        raise EgressDenied(f"{_whose(facts)} may not leave this machine, and `{name}` is elsewhere", param="model")
    return _with_fallbacks(deployment, facts, replace(chosen, estimate=facts.prompt_tokens))


def failure_of(error: ApplianceError) -> Failure | None:
    """What a fallback calls this error; None for those nothing else could answer better."""
    match error:
        case LoadFailed() | SourceError() | PeerFailed():
            return "load_failed"
        case Overloaded() | Unavailable():
            return "overloaded"
        case TimedOut():
            return "timeout"
        case PromptTooLong():
            return "context_exceeded"
        case _:
            return None


def lacks(model: ModelSpec, has: frozenset[str]) -> frozenset[str]:
    """What the request has that this model cannot handle."""
    capabilities, writes = model.family.capabilities, model.kind in ("text", "vision")
    # A family without a form for tool calls is told one; grammars hold for all that write.
    able = {
        "tools": writes,
        "images": bool(capabilities.get("vision")),
        "audio": bool(capabilities.get("audio")),
        "json_schema": writes,
    }
    return frozenset(each for each in has if not able[each])


# ---- virtual names
def _ruled(deployment: Deployment, facts: Facts) -> Route:
    name, reasons = facts.model.partition(":")[0], []
    for rule in deployment.routing.rules:
        unmet = next(_unmet(deployment, rule, facts, name), None)
        if unmet is None:
            goal, why = _choose(deployment, rule, facts)
            reasons.append(f"rule {rule.name} holds: {goal.to}, {why}")
            return Route(_target(deployment, goal, facts.model), rule.name, reasons=tuple(reasons))
        reasons.append(f"rule {rule.name} does not hold: {unmet}")
    raise UnknownModel(f"no rule under routing.rules says where this request for `{name}` goes", param="model")


def _unmet(deployment: Deployment, rule: Rule, facts: Facts, name: str) -> Iterator[str]:
    """What keeps a rule from holding."""
    yield from _unmet_condition(deployment, rule.when, facts, name, tokens(deployment, rule, facts))
    if not _reachable(deployment, rule, facts):
        yield f"{_whose(facts)} may not leave this machine"


def tokens(deployment: Deployment, rule: Rule, facts: Facts) -> int:
    """About how many tokens the prompt has for the first of a rule's targets: families write the same text in more
    tokens or fewer.
    """
    family = find(deployment, rule.use[0].to).model.family.name
    return round(facts.prompt_tokens * facts.scale.get(family, 1.0))


def _reachable(deployment: Deployment, rule: Rule, facts: Facts) -> list[Goal]:
    """The rule's goals that the request may go to."""
    return [goal for goal in rule.use if not (facts.local_only and is_peer(find(deployment, goal.to).model))]


def _may_be_told(deployment: Deployment, facts: Facts, name: str) -> bool:
    """Whether a client may learn from an error that this name is there."""
    key = deployment.security.keys.get(facts.key or "")
    return permits(key, name) and not (facts.local_only and is_peer(find(deployment, name).model))


def _whose(facts: Facts) -> str:
    return f"requests of the key `{facts.key}`" if facts.key else "this request"


def _unmet_condition(
    deployment: Deployment, when: Condition, facts: Facts, name: str, estimate: int
) -> Iterator[str]:
    """What keeps a condition from holding; `estimate` is of the prompt's tokens."""
    if when.model is not None and not fnmatch.fnmatchcase(name, when.model):
        yield f"the name is {name}, not {when.model}"
    if missing := when.has - facts.has:
        yield f"it has no {', '.join(sorted(missing))}"
    if (bound := when.prompt_tokens) is not None and not bound.holds(estimate):
        yield f"about {estimate} prompt tokens are not {bound}"
    if when.key is not None and when.key != facts.key:
        yield f"the key is {facts.key or 'none'}, not {when.key}"
    if when.time is not None and not when.time.holds(facts.minute):
        yield f"it is {facts.minute // 60:02}:{facts.minute % 60:02}"
    if when.endpoint is not None and not fnmatch.fnmatchcase(facts.endpoint, when.endpoint):
        yield f"it came to {facts.endpoint}"
    if when.effort and facts.effort not in when.effort:
        yield f"the reasoning effort is {facts.effort or 'not given'}"
    yield from _unmet_now(deployment, when, facts)
    for header, wanted in when.header.items():
        if not fnmatch.fnmatchcase(facts.headers.get(header, ""), wanted):
            yield f"the header {header} is not {wanted}"


def _unmet_now(deployment: Deployment, when: Condition, facts: Facts) -> Iterator[str]:
    """What keeps a condition from holding because of the models' present state."""

    def now(name: str) -> ModelNow:
        return facts.of(find(deployment, name).model.name)

    if when.warm is not None and now(when.warm).state != "ready":
        yield f"{when.warm} is not in memory"
    for name, states in when.state.items():
        if (state := now(name).state) not in states:
            yield f"{name} is {state}"
    for name, bound in when.queue.items():
        if not bound.holds(waiting := now(name).waiting):
            yield f"{waiting} wait for {name}, which is not {bound}"
    for name, bound in when.load.items():
        if not bound.holds(busy := 100 * now(name).load):
            yield f"{busy:.0f}% of the rows of {name} are busy, which is not {bound}"


def _choose(deployment: Deployment, rule: Rule, facts: Facts) -> tuple[Goal, str]:
    """One goal, and why it was chosen. Goals that can do what the request needs come first."""
    models = {goal.to: find(deployment, goal.to).model for goal in rule.use}
    allowed = _reachable(deployment, rule, facts)
    able = [goal for goal in allowed if not lacks(models[goal.to], facts.has)] or allowed
    able = [goal for goal in able if _peer(models[goal.to]) not in facts.down] or able
    goals = [goal for goal in able if goal.weight] or able
    if len(goals) == 1:
        return goals[0], "the only one that can" if len(rule.use) > 1 else "its only target"
    if rule.prefer == "warm":
        goals = [goal for goal in goals if facts.warm(models[goal.to].name)] or goals
    if text := {"session": facts.session, "prefix": facts.prefix, "never": ""}[rule.sticky]:
        return max(goals, key=lambda goal: _pull(goal, text)), f"which this {rule.sticky} sticks to"
    if rule.weighted:
        return _drawn(goals, facts.draw), "drawn by weight"
    return goals[0], "warm" if facts.warm(models[goals[0].to].name) else "first in order"


def _peer(model: ModelSpec) -> str | None:
    return model.name.partition("/")[0] if is_peer(model) else None


def _pull(goal: Goal, text: str) -> float:
    """Weighted rendezvous hashing: a changed weight or a new target moves as few conversations as possible."""
    hashed = int.from_bytes(hashlib.blake2b(f"{goal.to}\0{text}".encode(), digest_size=8).digest())
    return -goal.weight / math.log((hashed + 0.5) / 2**64) if goal.weight else 0.0


def _drawn(goals: list[Goal], draw: float) -> Goal:
    left = draw * sum(goal.weight for goal in goals)
    for goal in goals:
        left -= goal.weight
        if left < 0:
            return goal
    return goals[-1]


def _target(deployment: Deployment, goal: Goal, asked: str) -> Target:
    """The goal's model with all overlays: the rule's own, the request's profile, and those of the goal's alias."""
    profile = asked.partition(":")[2]
    found = find(deployment, f"{goal.to}:{profile}" if profile else goal.to)
    if profile not in ("", *deployment.profiles) and is_peer(found.model):
        raise UnknownModel(f"there is no profile `{profile}` for `{asked.partition(':')[0]}`", param="model")
    own = () if goal.own == Overlay() else (goal.own,)
    if goal.profile is None:
        return Target(asked, found.model, (*own, *found.overlays))
    # The profile of the route is weaker than the alias and the profile of the request, stronger than the rest.
    strong = (goal.to in deployment.aliases) + bool(profile)
    middle = deployment.profiles[goal.profile]
    return Target(asked, found.model, (*own, *found.overlays[:strong], middle, *found.overlays[strong:]))


# ---- other names
def _unknown(deployment: Deployment, facts: Facts, profile: str) -> Route:
    instead = deployment.routing.unknown_model
    assert instead is not None
    found = find(deployment, f"{instead}:{profile}" if profile in deployment.profiles else instead)
    reason = f"nothing is called {parted(deployment, facts.model)[0]}: routing.unknown_model says {instead}"
    return Route(replace(found, asked=facts.model), reasons=(reason,))


def _with_fallbacks(deployment: Deployment, facts: Facts, chosen: Route) -> Route:
    model = chosen.target.model
    fallback = deployment.routing.fallback.get(model.name)
    if fallback is None:
        return chosen
    targets, reasons = [], list(chosen.reasons)
    for name in fallback.to:
        target = find(deployment, name)
        if facts.local_only and is_peer(target.model):
            reasons.append(f"no fallback to {name}: {_whose(facts)} may not leave this machine")
        elif missing := lacks(target.model, facts.has):
            reasons.append(f"no fallback to {name}: it can do nothing with {', '.join(sorted(missing))}")
        elif target.model.name != model.name:
            reasons.append(f"falls back to {name} when {', '.join(fallback.when)}")
            # What the name asked for laid over its model goes on to hold, its policies above all.
            targets.append(Target(facts.model, target.model, (*target.overlays, *chosen.target.overlays)))
    return replace(chosen, fallbacks=tuple(targets), falls_when=frozenset(fallback.when), reasons=tuple(reasons))


def _described(target: Target, name: str) -> str:
    model: Any = target.model.name
    if is_peer(target.model) and model == name:
        return f"a model of the peer {_peer(target.model)}"
    return "a model" if model == name else f"another name for {model}"
