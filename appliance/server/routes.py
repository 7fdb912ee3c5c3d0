"""The answers that need no engine: models, health, version, metrics."""

import time
from typing import Any
from urllib.parse import unquote

import msgspec
from sanic import HTTPResponse, Request

from appliance.control.keys import permits
from appliance.control.status import ModelStatus
from appliance.errors import Cancelled, Unavailable, UnknownRequest
from appliance.server.body import read_body
from appliance.server.cards import card, card_list, cards, routed
from appliance.server.context import Context
from appliance.server.edge import json_response
from appliance.server.in_flight import Entry
from appliance.server.metrics import CONTENT_TYPE, render
from appliance.server.names import check_shown, known_to
from appliance.server.readings import readings


async def list_models(request: Request, context: Context) -> HTTPResponse:
    """`GET /v1/models`."""
    return _json(card_list(_cards(request, context)))


async def show_model(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/models/{id}`; ids may hold slashes, plain or escaped."""
    id, key, deployment = unquote(id), request.ctx.key, context.running.deployment
    check_shown(deployment, key, id)
    if id in deployment.routing.virtual:
        return _json(routed(id, context.started))
    return _json(card(deployment, id, _statuses(context), context.started, [*known_to(context, key)]))


async def health(request: Request, context: Context) -> HTTPResponse:
    """The process lives and its loop turns."""
    return _json({"status": "ok"})


async def ready(request: Request, context: Context) -> HTTPResponse:
    """Whether to send requests here: what is loaded at startup is loaded or has failed to load (the other models
    answer, and status says why), and nothing is being shut down.
    """
    if reasons := _unready(context):
        raise Unavailable("; ".join(reasons), retry_after=1)
    return _json({"status": "ready"})


async def version(request: Request, context: Context) -> HTTPResponse:
    """`GET /version`."""
    return _json({"version": context.version})


async def metrics(request: Request, context: Context) -> HTTPResponse:
    """`GET /metrics`: for Prometheus, to anyone; `observability.metrics.path` says where."""
    return HTTPResponse(render([*context.counted.families(), *readings(context)]), content_type=CONTENT_TYPE)


async def list_requests(request: Request, context: Context) -> HTTPResponse:
    """`GET /v1/requests`: what is being generated now for this key, the oldest first."""
    now, key = time.time(), _key_name(request)
    mine = (entry for entry in context.in_flight if entry.is_for(key))
    return _json({"object": "list", "data": [_running(entry, now) for entry in mine]})


async def cancel_request(request: Request, context: Context, id: str) -> HTTPResponse:
    """`POST /v1/requests/{id}/cancel`: end what runs under this request id; its client is told."""
    await read_body(request, context.running.deployment.server)
    if not context.in_flight.end(Cancelled("the request was cancelled"), unquote(id), _key_name(request)):
        raise UnknownRequest(f"no request {id[:128]!r} is running", param="id")
    return _json({"id": id, "object": "request", "cancelled": True})


def _key_name(request: Request) -> str | None:
    return request.ctx.key.name if request.ctx.key else None


def _running(entry: Entry, now: float) -> dict[str, Any]:
    return {
        "id": entry.id,
        "object": "request",
        "answer_id": entry.answer,
        "endpoint": entry.endpoint,
        "model": entry.asked_model,
        "served_by": entry.model,
        "created": int(entry.started),
        "seconds": round(now - entry.started, 3),
        "stream": entry.stream,
        "state": "waiting" if entry.prompt_tokens is None else "generating",
        "prompt_tokens": entry.prompt_tokens,
    }


def _cards(request: Request, context: Context) -> dict[str, dict[str, Any]]:
    """Of the names the client may ask for."""
    key, deployment = request.ctx.key, context.running.deployment
    found = cards(deployment, _statuses(context), context.started, [*known_to(context, key)])
    virtual = (id for id in deployment.routing.virtual if permits(key, id))
    return {**found, **{id: routed(id, context.started) for id in virtual}}


def _statuses(context: Context) -> dict[str, ModelStatus]:
    return {status.name: status for status in context.supervisor.status() if not status.retired}


def _unready(context: Context) -> tuple[str, ...]:
    return ("the server is shutting down",) if context.draining else context.supervisor.readiness()


def _json(value: dict[str, Any]) -> HTTPResponse:
    return json_response(msgspec.json.encode(value))
