"""One generation, from a body to its last byte: decode, decide, generate, encode.

The commit point: until the first event or the first heartbeat nothing has been sent, and an error is a status;
after it, an error is said in the stream.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote
from uuid import uuid4

from sanic import HTTPResponse, Request

from appliance import log
from appliance.config.deployment import Deployment, Target
from appliance.config.sampling import Decided, decide, find
from appliance.control.generation import Deadlines, generate
from appliance.control.supervisor import Lease
from appliance.errors import ApplianceError, BadRequest, EngineFault, Unavailable, Unsupported
from appliance.protocols import openai_chat
from appliance.protocols.openai_stream import HEARTBEAT, Answer, Fold, StreamEncoder
from appliance.server.body import read_body
from appliance.server.context import Context
from appliance.server.edge import as_ours, json_response, request_id
from appliance.server.sse import EventStream
from appliance.server.submission import submission
from appliance.vocab.event import Event, Finished, Started
from appliance.vocab.request import GenerateRequest
from appliance.vocab.spec import Submission

ENDPOINT = "/v1/chat/completions"
CLIENT_LEFT = 499
LARGE_BODY = 1 << 20
"""Bytes from which decoding would be felt by other clients' streams."""


@dataclass(slots=True)
class _Run:
    """A request on its way; pins the deployment it began with."""

    context: Context
    deployment: Deployment
    generation: int
    asked: GenerateRequest
    target: Target
    decided: Decided
    started: float
    lease: Lease | None = None
    first_token: float | None = None

    @property
    def model(self) -> str:
        return self.target.model.name


async def serve_chat(request: Request, context: Context) -> HTTPResponse | None:
    """Answer `POST /v1/chat/completions`. Raises ApplianceError while no status has been sent."""
    started = time.perf_counter()
    model, status = "", 500
    try:
        run = await _begin(request, context, started)
        model = run.model
        with log.bound(request=request_id(request), model=model):
            response, status = await (_stream if run.asked.stream else _whole)(request, run)
            return response
    except ApplianceError as error:
        status = error.status
        raise
    except asyncio.CancelledError:
        status = CLIENT_LEFT
        raise
    finally:
        context.counted.requests.add(ENDPOINT, model, str(status))


async def _begin(request: Request, context: Context, started: float) -> _Run:
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    body = await read_body(request, context.running.deployment.server)
    deployment, generation = context.running.deployment, context.running.generation
    asked = await asyncio.to_thread(openai_chat.decode, body) if len(body) > LARGE_BODY else openai_chat.decode(body)
    if asked.ignored and deployment.server.unknown_fields == "reject":
        name = asked.ignored[0]
        raise BadRequest(f"unknown field `{name}` (server.unknown_fields is reject)", param=name)
    target = find(deployment, asked.model)
    if asked.tools and target.model.family.tool_dialect == "none":
        raise Unsupported(f"{target.model.name} has no way to call tools", param="tools")
    decided = decide(deployment, target, asked, secrets.randbits(63))
    return _Run(context, deployment, generation, asked, target, decided, started)


async def _stream(request: Request, run: _Run) -> tuple[None, int]:
    settings = run.deployment.server
    out = EventStream(request, lambda: _headers(run), settings.idle_timeout)
    encoder = StreamEncoder(_answer(run))
    try:
        async with _events(run) as events, out.beating(settings.heartbeat, HEARTBEAT):
            async for index, event in events:
                _count(run, event)
                await out.send(encoder.feed(index, event))
    except Exception as raised:
        # The request edge once a status is sent: whatever it was, the stream has to say so.
        if not out.committed:
            raise
        error = as_ours(request, raised)
        log.get().warning("generation.failed", code=error.code, error=error.message)
        await out.finish(encoder.error(error))
        return None, error.status
    await out.finish(encoder.close())
    return None, 200


async def _whole(request: Request, run: _Run) -> tuple[HTTPResponse, int]:
    fold = Fold(_answer(run), logprobs=run.asked.logprobs is not None)
    async with _events(run) as events:
        async for index, event in events:
            _count(run, event)
            fold.feed(index, event)
    return json_response(fold.body(), _headers(run)), 200


@asynccontextmanager
async def _events(run: _Run) -> AsyncIterator[AsyncIterator[tuple[int, Event]]]:
    """The generation's events; leaving the block stops the work. Raises ApplianceError."""

    def compose(lease: Lease) -> Submission:
        run.lease = lease
        return submission(lease.model, lease.info, run.asked, run.decided)

    generating = generate(
        run.context.supervisor,
        run.target.model,
        compose,
        n=run.asked.n,
        deadlines=Deadlines.of(run.deployment.server),
    )
    async with run.context.in_flight.one(), aclosing(generating) as events:
        yield events


def _count(run: _Run, event: Event) -> None:
    counted = run.context.counted
    if run.first_token is None and not isinstance(event, Started):
        run.first_token = time.perf_counter() - run.started
        counted.first_token.observe(run.model, value=run.first_token)
    match event:
        case Finished("cancelled"):
            raise Unavailable("the generation was cancelled")
        case Finished("error"):
            raise EngineFault("the generation failed")
        case Finished(_, usage):
            counted.generated.add(run.model, by=usage.completion_tokens)
            counted.prompt.add(run.model, by=usage.prompt_tokens)
            counted.cached.add(run.model, by=usage.cached_tokens)
            counted.seconds.observe(run.model, value=time.perf_counter() - run.started)


def _answer(run: _Run) -> Answer:
    return Answer(
        id=f"chatcmpl-{uuid4().hex}",
        created=int(time.time()),
        model=run.asked.model,
        choices=run.asked.n,
        include_usage=run.asked.include_usage,
    )


def _headers(run: _Run) -> dict[str, str]:
    """What the client may want to know about how it was served."""
    facts = {
        "x-appliance-model": quote(run.model, safe="/:@+"),
        "x-appliance-generation": str(run.generation),
    }
    if run.lease is not None:
        facts["x-appliance-queue-ms"] = f"{run.lease.queue_seconds * 1000:.0f}"
        facts["x-appliance-load-ms"] = f"{run.lease.load_seconds * 1000:.0f}"
    if run.decided.rewrites:
        facts["x-appliance-params"] = ", ".join(_printable(str(rewrite)) for rewrite in run.decided.rewrites)
    if run.asked.ignored:
        facts["x-appliance-ignored"] = ", ".join(_printable(name) for name in run.asked.ignored[:32])
    return facts


def _printable(text: str) -> str:
    """Safe in a header, whatever a client sent."""
    return quote(text[:128], safe="=()>[]'._-:@+ ")
