"""Which model answers a request, with all that the server knows of it."""

import random
from collections import Counter
from dataclasses import replace

from appliance.config.deployment import Deployment
from appliance.config.peered import AT_ONCE
from appliance.control.clock import now_in
from appliance.control.facts import facts_of
from appliance.control.keys import check
from appliance.control.router import ModelNow, Route, route
from appliance.errors import BadRequest
from appliance.server.caller import Caller
from appliance.server.context import Context
from appliance.vocab.request import GenerateRequest


def route_of(caller: Caller, context: Context, deployment: Deployment, asked: GenerateRequest) -> Route:
    """Raises BadRequest for a field that is refused, NotAllowed for a name the key may not use, UnknownModel,
    EgressDenied.
    """
    if asked.ignored and deployment.server.unknown_fields == "reject":
        name = asked.ignored[0]
        raise BadRequest(f"unknown field `{name}` (server.unknown_fields is reject)", param=name)
    check(caller.key, asked.model)
    facts = facts_of(asked, caller.path, caller.key_name, caller.headers)
    facts = replace(facts, local_only=caller.key is not None and caller.key.egress == "deny")
    if asked.model.partition(":")[0] in deployment.routing.virtual:
        now, traffic = now_in(deployment), context.traffic
        facts = replace(
            facts,
            minute=now.hour * 60 + now.minute,
            draw=random.random(),
            now=_now(context, deployment),
            down=frozenset(traffic.peers.down()),
            scale=traffic.scales.known,
        )
    return route(deployment, facts)


def _now(context: Context, deployment: Deployment) -> dict[str, ModelNow]:
    """How every model is, and every one of a peer's that requests are for. Models that share an engine share rows."""
    engines = {name: model.fingerprint for name, model in deployment.models.items()}
    rows: Counter[str] = Counter()
    for model in deployment.models.values():
        rows[model.fingerprint] = max(rows[model.fingerprint], model.concurrency)
    waiting, busy = Counter[str](), Counter[str]()
    for entry in context.in_flight:
        engine = engines.setdefault(entry.model, entry.model)
        if entry.prompt_tokens is not None:
            busy[engine] += entry.rows
        elif not entry.leaves:
            waiting[engine] += 1
    states = {each.name: each.state for each in context.supervisor.status() if not each.retired}
    return {
        name: ModelNow(states.get(name, "cold"), waiting[engine], min(1.0, busy[engine] / (rows[engine] or AT_ONCE)))
        for name, engine in engines.items()
    }
