"""Responses that were given: what of them is kept, and the routes that tell of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

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
from appliance.server.sse import follow


def read(body: bytes, context: Context) -> Decoded:
    """A request, with what it goes on from."""
    return openai_responses.read(body, context.responses.recall)


def ended(context: Context, answer: Encoder | Fold) -> None:
    """Keep an answer, also one that failed: it can be asked for."""
    assert isinstance(answer, ResponseStream)
    if (kept := answer.kept()) is not None:
        context.responses.keep(kept)


async def show(request: Request, context: Context, id: str) -> HTTPResponse | None:
    """`GET /v1/responses/{id}`: a response as it ended, or as far as it is where nobody waits for it. With
    `stream=true` the events of one that was made so, behind the one of the number `starting_after`.
    """
    asked = query(request)
    if _flag("stream", asked) and request.method == "GET":
        events = _events_after(context, id, _number("starting_after", asked))
        await follow(request, context.running.deployment.server, events, {})
        return None
    if (making := context.background.get(id)) is not None:
        return _json(making.stream.response())
    return _json(context.responses.get(id).response)


def _events_after(context: Context, id: str, after: int) -> AsyncIterator[bytes]:
    making = context.background.get(id)
    if making is not None and making.stream.replays:
        return making.events_after(after)
    kept = None if making is not None else context.responses.get(id).events
    if kept is None:
        raise BadRequest("only a response made with `background` and `stream` can be streamed again", param="stream")
    return _these(kept[after + 1 :])


def _flag(name: str, asked: dict[str, str]) -> bool:
    if (text := asked.get(name, "false")) not in ("true", "false"):
        raise BadRequest(f"`{name}` must be true or false", param=name)
    return text == "true"


def _number(name: str, asked: dict[str, str]) -> int:
    """Of an event; before the first where none is named."""
    if (text := asked.get(name)) is None:
        return -1
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"`{name}` must be the number of an event", param=name)
    return int(text)


async def _these(events: Sequence[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event


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

    while (entry := running()) is None and context.background.get(id) is not None:
        await asyncio.sleep(0)  # it begins with the next turn of the loop
    if entry is None:
        context.responses.get(id)
        raise BadRequest(f"the response {id[:64]!r} has ended already", param="response_id")
    context.in_flight.end(Cancelled("the response was cancelled"), id)
    created = int(entry.started)
    return _json(openai_responses.cancelled(id, entry.asked_model, created))


def _json(value: object) -> HTTPResponse:
    return json_response(msgspec.json.encode(value))
