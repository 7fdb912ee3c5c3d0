"""Which model answers a request, with all that the server knows of it."""

import random
from dataclasses import replace

from appliance.config.deployment import Deployment
from appliance.control.clock import now_in
from appliance.control.facts import facts_of
from appliance.control.keys import check
from appliance.control.residency import EngineState
from appliance.control.router import Route, route
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
    facts = replace(facts, stays=caller.key is not None and caller.key.egress == "deny")
    if asked.model.partition(":")[0] in deployment.routing.virtual:
        now, traffic = now_in(deployment), context.traffic
        facts = replace(
            facts,
            minute=now.hour * 60 + now.minute,
            draw=random.random(),
            warm=_warm(context),
            down=frozenset(traffic.peers.down()),
            scale=traffic.scale,
        )
    return route(deployment, facts)


def _warm(context: Context) -> frozenset[str]:
    return frozenset(each.name for each in context.supervisor.status() if each.state is EngineState.READY)
