"""From a body to a run: what is asked, which model it goes to, and with which parameters."""

import asyncio
import secrets
import time
from dataclasses import dataclass, replace
from uuid import uuid4

from appliance.config.deployment import Deployment, Target
from appliance.config.peered import is_peer
from appliance.config.sampling import Decided, decide
from appliance.control.keys import accept, kept, priority, ruled
from appliance.control.lease import Lease
from appliance.control.router import Route
from appliance.protocols.adapter import Decoded
from appliance.server import elsewhere
from appliance.server.adapters import Adapter
from appliance.server.caller import Caller
from appliance.server.context import Context
from appliance.server.decisions import Decision
from appliance.server.in_flight import Entry
from appliance.server.names import counted_as
from appliance.server.routing import route_of
from appliance.vocab.event import Started
from appliance.vocab.request import GenerateRequest

LARGE_BODY = 1 << 20
"""Bytes from which decoding would be felt by other clients' streams."""


@dataclass(slots=True)
class Run:
    """A request on its way to its answer; it keeps the deployment it began with to the end.

    `started` is on the clock of `time.perf_counter`, `first_token` seconds after it; `keep` is for how many seconds
    the model should stay in memory afterwards, None where the request says nothing about it.
    """

    context: Context
    adapter: Adapter
    deployment: Deployment
    generation: int
    decoded: Decoded
    target: Target
    decided: Decided
    route: Route
    caller: Caller
    started: float
    entry: Entry
    keep: float | None
    decision: Decision
    lease: Lease | None = None
    first_token: float | None = None
    begun: Started | None = None
    """What the first of its answers to begin said."""

    @property
    def asked(self) -> GenerateRequest:
        return self.decoded.request

    @property
    def model(self) -> str:
        return self.target.model.name

    @property
    def counted_as(self) -> str:
        """What metrics call it."""
        return counted_as(self.context, self.deployment, self.target.model)


async def begin(caller: Caller, context: Context, adapter: Adapter, body: bytes, started: float) -> Run:
    """Decode, route and decide. Raises ApplianceError."""
    deployment, generation = context.running.deployment, context.running.generation
    large = len(body) > LARGE_BODY
    decoded = await asyncio.to_thread(adapter.decode, body, context) if large else adapter.decode(body, context)
    asked = decoded.request
    route = route_of(caller, context, deployment, asked)
    decision = _decision(caller, asked, route)
    context.traffic.decisions.append(decision)
    target = ruled(caller.key, route.target)
    decided, keep = decide_for(caller, deployment, target, asked, secrets.randbits(63))
    accept(caller.key, decided)
    entry = Entry(
        id=caller.id,
        answer=f"{adapter.prefix}{uuid4().hex}",
        endpoint=caller.path,
        model=target.model.name,
        asked_model=asked.model,
        started=time.time(),
        stream=asked.stream,
        key=caller.key_name,
        background=caller.background,
        rank=priority(caller.key, 0),
        size=len(body),
        rows=max(1, len(asked.prompts)) * asked.n,
    )
    return Run(
        context=context,
        adapter=adapter,
        deployment=deployment,
        generation=generation,
        decoded=decoded,
        target=target,
        decided=decided,
        route=route,
        caller=caller,
        started=started,
        entry=entry,
        keep=keep,
        decision=decision,
    )


def _decision(caller: Caller, asked: GenerateRequest, route: Route) -> Decision:
    return Decision(
        id=caller.id,
        time=time.time(),
        endpoint=caller.path,
        key=caller.key_name,
        asked=asked.model,
        rule=route.rule,
        reasons=route.reasons,
        served_by=route.target.model.name,
        fallbacks=tuple(target.model.name for target in route.fallbacks),
    )


def decide_for(
    caller: Caller, deployment: Deployment, target: Target, asked: GenerateRequest, seed: int
) -> tuple[Decided, float | None]:
    """The parameters a target is asked with, and `Run.keep`. Raises BadRequest, what policies refuse included."""
    decided = decide(deployment, target, asked, seed)
    keep, cut = kept(caller.key, asked.keep_alive)
    stripped = elsewhere.left_out(deployment, target, asked, decided) if is_peer(target.model) else ()
    return replace(decided, rewrites=(*decided.rewrites, *stripped, *cut)), keep
