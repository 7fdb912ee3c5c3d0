"""Responses that were given: what of them is kept, and the routes that tell of it."""

import asyncio

import msgspec
from sanic import HTTPResponse, Request

from appliance.errors import BadRequest, Cancelled
from appliance.protocols import openai_responses
from appliance.protocols.adapter import Decoded, Encoder, Fold
from appliance.protocols.paging import page
from appliance.protocols.responses_stream import ResponseStream
from appliance.server.body import query, read_body
from appliance.server.context import Context
from appliance.server.edge import json_response
from appliance.server.in_flight import Entry


def read(body: bytes, context: Context) -> Decoded:
    """A request, with what it goes on from."""
    return openai_responses.read(body, context.responses.recall)


def ended(context: Context, said: Encoder | Fold) -> None:
    """Keep an answer, also one that failed: it can be asked for."""
    assert isinstance(said, ResponseStream)
    if (kept := said.kept()) is not None:
        context.responses.keep(kept)


async def show(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/responses/{id}`: a response as it ended, or as far as it is where nobody waits for it."""
    if (making := context.behind.get(id)) is not None:
        return _json(making.response())
    return _json(context.responses.get(id).response)


async def delete(request: Request, context: Context, id: str) -> HTTPResponse:
    """`DELETE /v1/responses/{id}`: forget a response."""
    context.responses.forget(id)
    return _json({"id": id, "object": "response", "deleted": True})


async def input_items(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/responses/{id}/input_items`: what it was asked, the newest item first unless `order=asc`."""
    return _json(page(context.responses.get(id).items, query(request)))


async def cancel(request: Request, context: Context, id: str) -> HTTPResponse:
    """`POST /v1/responses/{id}/cancel`: end a response that is still being made."""
    await read_body(request, context.running.deployment.server)
    key = request.ctx.key.name if request.ctx.key else None

    def running() -> Entry | None:
        return next((entry for entry in context.in_flight if entry.answer == id and entry.is_for(key)), None)

    while (entry := running()) is None and context.behind.get(id) is not None:
        await asyncio.sleep(0)  # it begins with the next turn of the loop
    if entry is None:
        context.responses.get(id)
        raise BadRequest(f"the response {id[:64]!r} has ended already", param="response_id")
    context.in_flight.end(Cancelled("the response was cancelled"), id)
    created = int(entry.started)
    return _json(openai_responses.cancelled(id, entry.asked_model, created))


def _json(value: object) -> HTTPResponse:
    return json_response(msgspec.json.encode(value))
