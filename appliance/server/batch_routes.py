"""`/v1/batches`: begun, looked at, listed, cancelled. Whoever runs them is told, and does the rest."""

import time
from uuid import uuid4

import msgspec
from sanic import HTTPResponse, Request

from appliance.errors import Unavailable
from appliance.protocols import batches
from appliance.protocols.batches import PREFIX, Batch
from appliance.protocols.paging import page
from appliance.server.apis import check_spoken
from appliance.server.body import query, read_body
from appliance.server.caller import key_name
from appliance.server.context import Context
from appliance.server.edge import json_response


async def create(request: Request, context: Context) -> HTTPResponse:
    """`POST /v1/batches`: run the requests of an uploaded file, behind all others."""
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    body = await read_body(request, context.running.deployment.server)
    key = key_name(request)
    batch = batches.asked(body, f"{PREFIX}{uuid4().hex}", key, int(time.time()))
    check_spoken(context.running.deployment, batch.endpoint)
    context.files.get(batch.input_file, key)
    await context.batches.ask(batch)
    return _json(batch)


async def show(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/batches/{id}`: how far a batch is."""
    return _json(context.batches.get(id, key_name(request), PREFIX))


async def index(request: Request, context: Context) -> HTTPResponse:
    """`GET /v1/batches`: the batches there are, the newest first."""
    shown = [batches.described(batch) for batch in context.batches.all(key_name(request), PREFIX)]
    return json_response(msgspec.json.encode(page(shown, {"after": "", **query(request), "order": "desc"})))


async def cancel(request: Request, context: Context, id: str) -> HTTPResponse:
    """`POST /v1/batches/{id}/cancel`: end a batch; what it has answered stays."""
    await read_body(request, context.running.deployment.server)
    batch = batches.cancelling(context.batches.get(id, key_name(request), PREFIX), int(time.time()))
    await context.batches.ask(batch)
    return _json(batch)


def _json(batch: Batch) -> HTTPResponse:
    return json_response(msgspec.json.encode(batches.described(batch)))
