"""What the appliance is told and tells over its admin socket."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from sanic import HTTPResponse, Request

from appliance.config import units
from appliance.config.deployment import ModelSpec
from appliance.config.render import Estimate
from appliance.config.suggest import did_you_mean
from appliance.control.beside import beside
from appliance.control.events import Event
from appliance.control.journal import Journal, plain
from appliance.control.registry import unloaded
from appliance.control.reload import Reloader
from appliance.control.running import Outcome, Proposal
from appliance.errors import BadRequest, GenerationMoved, TimedOut, UnknownGeneration, UnknownModel, Unsupported
from appliance.protocols.fields import misfit, read_object
from appliance.server import admin_types as types
from appliance.server import overview
from appliance.server.context import Context

T = TypeVar("T")

HEARTBEAT_SECONDS = 15.0
DEFAULT_WAIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Admin:
    """What admin handlers share; `end` begins the shutdown."""

    context: Context
    reloader: Reloader
    journal: Journal
    end: Callable[[], None]

    @property
    def generation(self) -> int:
        return self.context.running.generation


async def status(request: Request, admin: Admin) -> HTTPResponse:
    """Everything about the appliance; `wait=1` answers once it has converged or `timeout` is over: 15s, 5m, or a
    number of seconds.
    """
    if _wanted(request, "wait"):
        await admin.context.observer.converged(_timeout(request))
    return _answer(overview.status(admin.context), admin)


async def config(request: Request, admin: Admin) -> HTTPResponse:
    """The running deployment in its resolved form."""
    deployment, generation = admin.context.running.deployment, admin.generation
    resolved = await beside(plain, deployment)
    return _answer(types.ConfigAnswer(generation, deployment.digest, list(deployment.files), resolved), admin)


async def propose(request: Request, admin: Admin) -> HTTPResponse:
    """With `dry_run=1`: what the document in the body, or without one the file on disk, would change."""
    if not _wanted(request, "dry_run"):
        raise Unsupported("the deploy file alone is the configuration: ask with dry_run=1, or save the file")
    proposal = await admin.reloader.propose(request.body or None)
    estimate = await _estimate(admin, proposal)
    return _answer(await beside(types.plan, proposal, admin.context.supervisor.status(), estimate), admin)


async def reload(request: Request, admin: Admin) -> HTTPResponse:
    """Read the file now. With a `plan` only that plan is carried out; `wait=1` answers when it has converged."""
    body = _decode(request.body, types.ReloadBody)
    outcome = await admin.reloader.reload_if(base=_if_match(request), plan=body.plan)
    return await _applied(request, admin, outcome)


async def rollback(request: Request, admin: Admin) -> HTTPResponse:
    """Apply a kept generation as a new one; the file on disk stays as it is."""
    body = _decode(request.body, types.RollbackBody)
    outcome = await admin.reloader.rollback(body.generation, base=_if_match(request))
    return await _applied(request, admin, outcome)


async def generations(request: Request, admin: Admin) -> HTTPResponse:
    """The kept generations, newest first."""
    kept = await asyncio.to_thread(admin.journal.history)
    return _answer(types.GenerationsAnswer([types.generation(each, admin.generation) for each in kept]), admin)


async def generation(request: Request, admin: Admin, number: str) -> HTTPResponse:
    """One kept generation with its resolved form."""
    kept = await asyncio.to_thread(admin.journal.get, int(number)) if number.isdecimal() else None
    if kept is None:
        raise UnknownGeneration(f"generation {number[:20]} is not kept")
    shown = types.generation(kept, admin.generation)
    return _answer(types.GenerationDetail(shown, list(kept.sources), kept.resolved), admin)


async def events(request: Request, admin: Admin) -> None:
    """What happens from now on, one JSON object a line, or server-sent events for a client that accepts them."""
    sse = "text/event-stream" in request.headers.get("accept", "")
    with admin.context.events.listening() as listener:
        response = await request.respond(content_type="text/event-stream" if sse else "application/x-ndjson")
        await response.send(_line({"event": "events.begin", "generation": admin.generation}, sse))
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    event = await listener.next()
            except TimeoutError:
                await response.send(b": \n\n" if sse else b"\n")
            else:
                await response.send(_line(event, sse))


async def decisions(request: Request, admin: Admin) -> HTTPResponse:
    """Where the latest 200 requests went and why, newest first."""
    latest = [types.decision(each) for each in reversed(admin.context.traffic.decisions)]
    return _answer(types.DecisionsAnswer(latest), admin)


async def cache(request: Request, admin: Admin, name: str) -> HTTPResponse:
    """How much of a model's latest prompts was cached, newest first, and the first token where one differed from what
    was stored.
    """
    spec = _model(admin, name)
    latest = [types.reused(each) for each in reversed(admin.context.reused) if each.model == spec.name]
    return _answer(types.CacheAnswer(latest), admin)


async def load(request: Request, admin: Admin, name: str) -> HTTPResponse:
    """Load a model now, and answer when it is ready; what failed before is tried again."""
    spec = _model(admin, name)
    admin.context.supervisor.load(spec.name)
    seconds = _timeout(request)
    try:
        async with asyncio.timeout(seconds if seconds < math.inf else None):
            async with admin.context.supervisor.acquire(spec, patient=True):
                pass
    except TimeoutError:
        raise TimedOut(f"{spec.name} was not ready within {seconds:g} s; it goes on loading") from None
    return _answer(_one(admin, spec.name), admin)


async def unload(request: Request, admin: Admin, name: str) -> HTTPResponse:
    """Stop a model's engine; the next request loads it again. One in use is refused; with `now=1` its requests are
    ended, each in the words of its protocol.
    """
    spec, at_once = _model(admin, name), _wanted(request, "now")
    models = admin.context.supervisor.unload(spec.name, at_once=at_once)
    if at_once:
        admin.context.in_flight.end_of(models, unloaded(spec.name))
    return _answer(_one(admin, spec.name), admin)


async def pin(request: Request, admin: Admin, name: str) -> HTTPResponse:
    """Keep a model in memory `for` so long (2h, or a number of seconds), without end where nothing is said; 0
    takes it back.
    """
    spec = _model(admin, name)
    admin.context.supervisor.pin(spec.name, _seconds(request, "for", math.inf))
    return _answer(_one(admin, spec.name), admin)


async def shutdown(request: Request, admin: Admin) -> HTTPResponse:
    """Let running generations finish, then end."""
    admin.end()
    return _answer(types.Accepted(), admin, 202)


async def _applied(request: Request, admin: Admin, outcome: Outcome) -> HTTPResponse:
    said = types.reload(outcome)
    if outcome.status == "rejected":
        error = types.ErrorObject(outcome.message, "invalid_request_error", None, "config_rejected")
        return _answer(types.ErrorAnswer(error, said.problems), admin, 422)
    convergence = None
    if _wanted(request, "wait"):
        await admin.context.observer.converged(_timeout(request))
        convergence = overview.convergence(admin.context.observer)
    return _answer(types.AppliedAnswer(said, convergence), admin)


async def _estimate(admin: Admin, proposal: Proposal) -> Estimate:
    prepared = [await admin.context.supervisor.prepare(d) for d in (proposal.before, proposal.deployment)]
    demands = [demand for each in prepared for demand in each.demands.values()]
    known = [demand for demand in demands if demand.place.known or demand.first.source.kind == "fake"]
    sizes = {demand.first.fingerprint: demand.place.need for demand in known}
    return lambda model: sizes.get(model.fingerprint)


def _one(admin: Admin, name: str) -> types.ModelAnswer:
    admin.context.observer.look()
    models = overview.models(admin.context.observer)
    return next(model for model in models if model.name == name and not model.retired)


def _model(admin: Admin, name: str) -> ModelSpec:
    name = unquote(name)
    deployment = admin.context.running.deployment
    spec = deployment.models.get(name)
    if spec is None:
        alias = deployment.aliases.get(name)
        near = f"this is an alias of {alias.model}" if alias else did_you_mean(name, deployment.models)
        hint = near or "`appliance ps` lists them"
        raise UnknownModel(f"there is no model {name[:200]!r} in this deployment; {hint}", param="model")
    return spec


def _answer(value: msgspec.Struct, admin: Admin, status: int = 200) -> HTTPResponse:
    headers = {"etag": f'"{admin.generation}"'}
    body = msgspec.json.encode(value)
    return HTTPResponse(body, status=status, headers=headers, content_type="application/json")


def _line(event: Event, sse: bool) -> bytes:
    data = msgspec.json.encode(event)
    return b"event: " + str(event["event"]).encode() + b"\ndata: " + data + b"\n\n" if sse else data + b"\n"


def _decode(body: bytes, kind: type[T]) -> T:
    read_object(body := body or b"{}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise misfit("body", error) from None


def _wanted(request: Request, name: str) -> bool:
    match request.args.get(name, "0"):
        case "1" | "true" | "":
            return True
        case "0" | "false":
            return False
        case value:
            raise BadRequest(f"{name} must be 0 or 1, not {value[:20]!r}", param=name)


def _timeout(request: Request) -> float:
    return _seconds(request, "timeout", DEFAULT_WAIT_SECONDS)


def _seconds(request: Request, name: str, default: float) -> float:
    text: Any = request.args.get(name, default)
    try:
        return units.seconds(text)
    except units.NotAQuantity as error:
        raise BadRequest(f"{name}: {error.message}; {error.hint}", param=name) from None


def guard(request: Request, admin: Admin) -> None:
    """Raises GenerationMoved where the request is meant for another generation than the one that runs."""
    if (base := _if_match(request)) not in (None, admin.generation):
        raise GenerationMoved(f"generation {admin.generation} is running, not {base}")


def _if_match(request: Request) -> int | None:
    text = request.headers.get("if-match", "*").strip().removeprefix("W/").strip('"')
    if text == "*":
        return None
    if not text.isdecimal():
        raise BadRequest("If-Match must be the number of a generation in quotes", param="If-Match")
    return int(text)
