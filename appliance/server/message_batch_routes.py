"""`/v1/messages/batches`: begun, looked at, listed, cancelled, removed, and their results."""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from uuid import uuid4

import msgspec
from sanic import HTTPResponse, Request

from appliance.errors import BadRequest, Unavailable
from appliance.protocols import batches, message_batches
from appliance.protocols.batches import MESSAGES_PREFIX, Batch
from appliance.server.batch_store import input_id
from appliance.server.body import query, read_body
from appliance.server.caller import key_name
from appliance.server.context import Context
from appliance.server.edge import json_response

LINES = 64
"""Results that are read and sent at a time."""
JSON_LINES = "application/x-jsonl"


async def create(request: Request, context: Context) -> HTTPResponse:
    """`POST /v1/messages/batches`: answer many requests, behind all others."""
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    body = await read_body(request, context.running.deployment.server)
    id, key, now = uuid4().hex, key_name(request), int(time.time())
    batch, lines = await asyncio.to_thread(message_batches.asked, body, id, input_id(id), key, now)
    await context.batches.keep_input(batch, lines)
    await context.batches.ask(batch)
    return _json(request, batch)


async def show(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/messages/batches/{id}`: how far a batch is."""
    return _json(request, _known(request, context, id))


async def index(request: Request, context: Context) -> HTTPResponse:
    """`GET /v1/messages/batches`: the batches there are, the newest first."""
    mine = context.batches.all(key_name(request), MESSAGES_PREFIX)
    shown = [message_batches.described(batch, _results_url(request, batch)) for batch in reversed(mine)]
    return json_response(msgspec.json.encode(message_batches.page(shown, query(request))))


async def results(request: Request, context: Context, id: str) -> HTTPResponse | None:
    """`GET /v1/messages/batches/{id}/results`: a line of JSON for every request of a batch that has ended."""
    batch = _known(request, context, id)
    if not batch.ended:
        raise BadRequest(f"the batch {batch.id} has not ended: there are results once it has")
    if request.method == "HEAD":
        return HTTPResponse(content_type=JSON_LINES)
    lines = context.batches.results(batch)
    response = await request.respond(content_type=JSON_LINES)
    while some := await asyncio.to_thread(_some, lines):
        await response.send(some)
    await response.eof()
    return None


async def cancel(request: Request, context: Context, id: str) -> HTTPResponse:
    """`POST /v1/messages/batches/{id}/cancel`: end a batch; what it has answered stays."""
    await read_body(request, context.running.deployment.server)
    batch = batches.cancelling(_known(request, context, id), int(time.time()))
    await context.batches.ask(batch)
    return _json(request, batch)


async def delete(request: Request, context: Context, id: str) -> HTTPResponse:
    """`DELETE /v1/messages/batches/{id}`: forget a batch that has ended, and its results."""
    batch = _known(request, context, id)
    if not batch.ended:
        raise BadRequest(f"the batch {batch.id} has not ended: cancel it first")
    await context.batches.remove(batch)
    return json_response(msgspec.json.encode({"id": id, "type": "message_batch_deleted"}))


def _known(request: Request, context: Context, id: str) -> Batch:
    return context.batches.get(id, key_name(request), MESSAGES_PREFIX)


def _some(lines: Iterator[bytes]) -> bytes:
    return b"".join(map(message_batches.result, islice(lines, LINES)))


def _results_url(request: Request, batch: Batch) -> str:
    return f"{request.scheme}://{request.host}/v1/messages/batches/{batch.id}/results"


def _json(request: Request, batch: Batch) -> HTTPResponse:
    return json_response(msgspec.json.encode(message_batches.described(batch, _results_url(request, batch))))
