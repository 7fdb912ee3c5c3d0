"""A generation over HTTP: a body comes in, a stream or one answer goes out.

The commit point: until the first event or the first heartbeat nothing has been sent, and an error is a status;
after it, an error is said in the stream.
"""

import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from sanic import HTTPResponse, Request

from appliance import log
from appliance.errors import Unavailable
from appliance.protocols.responses_stream import ResponseStream
from appliance.server.adapters import Adapter
from appliance.server.admission import in_line
from appliance.server.answering import answer, events_of, whole
from appliance.server.background import BackgroundResponse
from appliance.server.body import read_body
from appliance.server.body_log import logged_bodies
from appliance.server.caller import caller_of
from appliance.server.context import Context
from appliance.server.edge import as_ours, json_response, request_id
from appliance.server.reused import header
from appliance.server.run import Run, begin
from appliance.server.sse import EventStream, follow
from appliance.server.tally import tallied


async def serve(request: Request, context: Context, endpoint: str, adapter: Adapter) -> HTTPResponse | None:
    """Answer a request of one of the protocols. Raises ApplianceError while no status has been sent."""
    started = time.perf_counter()
    request.ctx.tallied = True
    with tallied(context, endpoint) as tally, logged_bodies(context, request) as request.ctx.exchange:
        run = await _arrived(request, context, adapter, started)
        try:
            with log.bound(request=request_id(request), model=run.model):
                response, tally.status = await _way(run)(request, run)
                request.ctx.exchange.ended(tally.status, response)
                return response
        finally:
            tally.model = run.counted_as


async def _arrived(request: Request, context: Context, adapter: Adapter, started: float) -> Run:
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    with in_line(context, request.ctx.key, request.headers.getone("content-length", None)):
        body = request.ctx.exchange.asked = await read_body(request, context.running.deployment.server)
        return await begin(caller_of(request), context, adapter, body, started)


def _way(run: Run) -> Callable[[Request, Run], Awaitable[tuple[HTTPResponse | None, int]]]:
    return _background if run.decoded.background else _stream if run.asked.stream else _whole


async def _background(request: Request, run: Run) -> tuple[HTTPResponse | None, int]:
    """Answer at once with the response as it begins, or follow it; it is finished even if the client leaves."""
    stream = run.decoded.whole(await answer(run))
    assert isinstance(stream, ResponseStream)
    stream.heartbeat()
    making = BackgroundResponse(stream)
    run.caller.passage.stay()
    run.context.background.begin(run.entry.answer, making, _finish(request, run, making))
    if run.asked.stream:
        await follow(request, run.deployment.server, making.events_after(-1), _headers(run))
        return None, 200
    return json_response(stream.body(), _headers(run)), 200


async def _finish(request: Request, run: Run, making: BackgroundResponse) -> None:
    stream = making.stream
    try:
        async with events_of(run, lambda: True) as events:
            async for index, event in events:
                stream.feed(index, event)
                making.grew()
    except Exception as raised:  # noqa: BLE001 - the request edge of a request whose client does not wait
        stream.error(as_ours(request, raised))
    else:
        stream.close()
    finally:
        run.caller.passage.leave()
    run.adapter.ended(run.context, stream)


async def _stream(request: Request, run: Run) -> tuple[None, int]:
    settings = run.deployment.server
    out = EventStream(request, lambda: _headers(run), settings.idle_timeout, run.adapter.content_type)
    encoder = run.decoded.stream(await answer(run))
    try:
        async with (
            events_of(run, lambda: out.committed) as events,
            out.beating(settings.heartbeat, encoder.heartbeat),
        ):
            async for index, event in events:
                request.ctx.exchange.said(index, event)
                await out.send(encoder.feed(index, event))
    except Exception as raised:
        # The request edge once a status is sent: whatever it was, the stream has to say so.
        if not out.committed:
            raise
        error = as_ours(request, raised)
        log.get().warning("generation.failed", code=error.code, error=error.message)
        last, status = encoder.error(error), error.status
    else:
        last, status = encoder.close(), 200
    run.adapter.ended(run.context, encoder)
    await out.finish(last)
    return None, status


async def _whole(request: Request, run: Run) -> tuple[HTTPResponse, int]:
    return json_response(await whole(run), _headers(run)), 200


def _headers(run: Run) -> dict[str, str]:
    """What the client may want to know about how it was served."""
    facts = {
        "x-appliance-model": quote(run.model, safe="/:@+"),
        "x-appliance-generation": str(run.generation),
    }
    if run.route.rule is not None:
        facts["x-appliance-route"] = _printable(run.route.rule)
    if run.lease is not None:
        facts["x-appliance-queue-ms"] = f"{run.lease.queue_seconds * 1000:.0f}"
        facts["x-appliance-load-ms"] = f"{run.lease.load_seconds * 1000:.0f}"
    if run.begun is not None:
        facts["x-appliance-cache"] = header(run.begun)
    if run.decided.rewrites:
        facts["x-appliance-params"] = ", ".join(_printable(str(rewrite)) for rewrite in run.decided.rewrites)
    if run.asked.ignored:
        facts["x-appliance-ignored"] = ", ".join(_printable(name) for name in run.asked.ignored[:32])
    return facts


def _printable(text: str) -> str:
    """Safe in a header, whatever a client sent."""
    return quote(text[:128], safe="=()>[]'._-:@+ ")
