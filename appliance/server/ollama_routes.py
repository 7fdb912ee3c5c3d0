"""Ollama's questions that need no engine: which models there are, which are loaded, and what is known of one."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from sanic import HTTPResponse, Request

from appliance.config.deployment import ModelSpec
from appliance.config.sampling import find
from appliance.control.status import ModelStatus
from appliance.errors import BadRequest
from appliance.protocols.fields import read_fields
from appliance.protocols.ollama import LATEST
from appliance.protocols.sampling import flag, model_name
from appliance.server import ollama_cards as cards
from appliance.server.body import read_body
from appliance.server.context import Context
from appliance.server.edge import json_response
from appliance.server.names import check_shown, known_to

SHOW = {"model": model_name, "name": model_name, "verbose": flag}


async def root(request: Request, context: Context) -> HTTPResponse:
    """`GET /`: what Ollama's clients look for to know that somebody is there."""
    spoken = "ollama" in context.running.deployment.server.apis
    return HTTPResponse(f"{'Ollama' if spoken else 'appliance'} is running", content_type="text/plain; charset=utf-8")


async def tags(request: Request, context: Context) -> HTTPResponse:
    """`GET /api/tags`: the models a client may ask for."""
    statuses = _statuses(context)
    models = [
        cards.tag(id, model, statuses.get(model.name), context.started) for id, model in _models(request, context)
    ]
    return _json({"models": models})


async def ps(request: Request, context: Context) -> HTTPResponse:
    """`GET /api/ps`: those of them that are loaded."""
    now, statuses = time.time(), _statuses(context)
    loaded = [
        cards.running(id, model, status, now)
        for id, model in _models(request, context)
        if (status := statuses.get(model.name)) is not None and status.info is not None
    ]
    return _json({"models": loaded})


async def show(request: Request, context: Context) -> HTTPResponse:
    """`POST /api/show`: what is known of one model."""
    body = await read_body(request, context.running.deployment.server)
    given, _ = read_fields(body, SHOW, ())
    if (asked := given.get("model", given.get("name"))) is None:
        raise BadRequest("`model` is required", param="model")
    id = asked.removesuffix(LATEST)
    check_shown(context.running.deployment, _key(request), id)
    model = find(context.running.deployment, id).model
    return _json(cards.shown(id, model, context.started))


async def version(request: Request, context: Context) -> HTTPResponse:
    """`GET /api/version`: the release of Ollama whose API this is, and ours."""
    return _json({"version": cards.API_VERSION, "appliance": context.version})


def _models(request: Request, context: Context) -> Iterator[tuple[str, ModelSpec]]:
    deployment = context.running.deployment
    for id in known_to(context, _key(request)):
        yield id, find(deployment, id).model


def _statuses(context: Context) -> dict[str, ModelStatus]:
    return {status.name: status for status in context.supervisor.status() if not status.retired}


def _key(request: Request) -> Any:
    """The key the request came with, where the deployment has keys."""
    return getattr(request.ctx, "key", None)


def _json(value: object) -> HTTPResponse:
    return json_response(msgspec.json.encode(value))
