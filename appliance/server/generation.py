"""One generation, from a body to its last byte: decode, decide, generate, encode.

The commit point: until the first event or the first heartbeat nothing has been sent, and an error is a status;
after it, an error is said in the stream.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote
from uuid import uuid4

from sanic import HTTPResponse, Request

from appliance import log
from appliance.config.deployment import Deployment, Target
from appliance.config.sampling import Decided, decide
from appliance.control.fallback import first_that_answers
from appliance.control.generation import Compose, Deadlines, generate
from appliance.control.keys import accept, ruled
from appliance.control.router import Route, failure_of
from appliance.control.supervisor import Lease
from appliance.errors import ApplianceError, Cancelled, EngineFault, Unavailable
from appliance.protocols.adapter import Answer, Decoded
from appliance.server.adapters import Adapter
from appliance.server.body import read_body
from appliance.server.context import Context
from appliance.server.counting import texts_of
from appliance.server.crowds import refuse_crowds
from appliance.server.door import Passage
from appliance.server.edge import as_ours, json_response, request_id
from appliance.server.in_flight import Entry
from appliance.server.routing import route_of
from appliance.server.sse import EventStream
from appliance.server.submission import submission
from appliance.server.tally import tallied
from appliance.vocab.event import Event, Finished, Started, ToolCallDelta
from appliance.vocab.request import GenerateRequest, TextPrompt, TokenPrompt
from appliance.vocab.spec import Submission

LARGE_BODY = 1 << 20
"""Bytes from which decoding would be felt by other clients' streams."""


@dataclass(slots=True)
class _Run:
    """A request on its way; pins the deployment it began with."""

    context: Context
    adapter: Adapter
    deployment: Deployment
    generation: int
    decoded: Decoded
    target: Target
    decided: Decided
    route: Route
    passage: Passage
    started: float
    entry: Entry
    lease: Lease | None = None
    first_token: float | None = None

    @property
    def asked(self) -> GenerateRequest:
        return self.decoded.request

    @property
    def model(self) -> str:
        return self.target.model.name


async def serve(request: Request, context: Context, endpoint: str, adapter: Adapter) -> HTTPResponse | None:
    """Answer a request of one of the protocols. Raises ApplianceError while no status has been sent."""
    started = time.perf_counter()
    with tallied(context, endpoint) as tally:
        run = await _begin(request, context, endpoint, adapter, started)
        try:
            with log.bound(request=request_id(request), model=run.model):
                response, tally.status = await (_stream if run.asked.stream else _whole)(request, run)
                return response
        finally:
            tally.model = run.model


async def _begin(request: Request, context: Context, endpoint: str, adapter: Adapter, started: float) -> _Run:
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    refuse_crowds(context)
    body = await read_body(request, context.running.deployment.server)
    deployment, generation = context.running.deployment, context.running.generation
    large = len(body) > LARGE_BODY
    decoded = await asyncio.to_thread(adapter.decode, body, context) if large else adapter.decode(body, context)
    asked = decoded.request
    route = route_of(request, context, deployment, asked)
    passage: Passage = request.ctx.passage
    target = ruled(passage.key, route.target)
    decided = accept(passage.key, decide(deployment, target, asked, secrets.randbits(63)))
    refuse_crowds(context)
    entry = Entry(
        id=request_id(request),
        answer=f"{adapter.prefix}{uuid4().hex}",
        endpoint=endpoint,
        model=target.model.name,
        asked_model=asked.model,
        started=time.time(),
        stream=asked.stream,
        key=passage.key.name if passage.key else None,
    )
    return _Run(context, adapter, deployment, generation, decoded, target, decided, route, passage, started, entry)


async def _stream(request: Request, run: _Run) -> tuple[None, int]:
    settings = run.deployment.server
    out = EventStream(request, lambda: _headers(run), settings.idle_timeout, run.adapter.content_type)
    encoder = run.decoded.stream(await _answer(run))
    try:
        async with _events(run, lambda: out.committed) as events, out.beating(settings.heartbeat, encoder.heartbeat):
            async for index, event in events:
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


async def _whole(request: Request, run: _Run) -> tuple[HTTPResponse, int]:
    fold = run.decoded.whole(await _answer(run))
    async with _events(run, lambda: False) as events:
        async for index, event in events:
            fold.feed(index, event)
    body = fold.body()
    run.adapter.ended(run.context, fold)
    return json_response(body, _headers(run)), 200


async def _answer(run: _Run) -> Answer:
    asked = run.asked
    return Answer(
        id=run.entry.answer,
        created=int(run.entry.started),
        model=asked.model,
        choices=max(1, len(asked.prompts)) * asked.n,
        include_usage=asked.include_usage,
        clock=lambda: time.perf_counter() - run.started,
        prompts=await texts_of(run.context, run.target.model, asked.prompts) if run.decoded.echoes else (),
    )


@asynccontextmanager
async def _events(run: _Run, committed: Callable[[], bool]) -> AsyncIterator[AsyncIterator[tuple[int, Event]]]:
    """The generation's events, listed as running; leaving the block stops the work. Raises ApplianceError.

    Once something is `committed` no other model takes over.
    """
    attempts = [partial(_generate, run, None), *(partial(_generate, run, target) for target in run.route.fallbacks)]
    generating = first_that_answers(attempts, lambda error: not committed() and _falls(run, error))
    async with (
        run.context.in_flight.one(run.entry),
        aclosing(generating) as events,
        aclosing(_told(run, events)) as told,
    ):
        yield told


def _generate(run: _Run, instead: Target | None) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of the run's model; with `instead`, of the one that takes over."""
    deadlines = Deadlines.of(run.deployment.server)
    if instead is not None:
        target = ruled(run.passage.key, instead)
        run.decided = decide(run.deployment, target, run.asked, run.decided.sampling.seed)
        log.get().warning("route.fallback", to=target.model.name)
        run.target, run.entry.model, run.lease = target, target.model.name, None
        left = deadlines.request - (time.perf_counter() - run.started)
        deadlines = replace(deadlines, request=max(0.0, left))
    prompts = run.asked.prompts
    compose = tuple(_compose(run, prompt) for prompt in prompts) if prompts else _compose(run, None)
    return generate(run.context.supervisor, run.target.model, compose, n=run.asked.n, deadlines=deadlines)


def _falls(run: _Run, error: ApplianceError) -> bool:
    return failure_of(error) in run.route.falls_when


def _compose(run: _Run, prompt: TextPrompt | TokenPrompt | None) -> Compose:
    def compose(lease: Lease) -> Submission:
        run.lease = lease
        return submission(lease.model, lease.info, run.asked, run.decided, prompt, run.passage.key)

    return compose


async def _told(run: _Run, events: AsyncIterator[tuple[int, Event]]) -> AsyncGenerator[tuple[int, Event], None]:
    """What the client is told of the events, all of them counted."""
    async for index, event in events:
        _count(run, index, event)
        if run.asked.parallel_calls or not isinstance(event, ToolCallDelta) or event.index == 0:
            yield index, event


def _count(run: _Run, index: int, event: Event) -> None:
    counted, passage = run.context.counted, run.passage
    if run.first_token is None and not isinstance(event, Started):
        run.first_token = time.perf_counter() - run.started
        counted.first_token.observe(run.model, value=run.first_token)
    match event:
        case Started(prompt_tokens):
            run.entry.prompt_tokens = prompt_tokens
            run.context.begun.append(time.monotonic())
            # Several answers to a prompt read it once.
            if index % run.asked.n == 0:
                passage.read(prompt_tokens)
        case Finished("cancelled"):
            raise Cancelled("the generation was cancelled")
        case Finished("error"):
            raise EngineFault("the generation failed")
        case Finished(_, usage):
            passage.finished(index, usage.completion_tokens)
            counted.generated.add(run.model, by=usage.completion_tokens)
            counted.prompt.add(run.model, by=usage.prompt_tokens)
            counted.cached.add(run.model, by=usage.cached_tokens)
            counted.seconds.observe(run.model, value=time.perf_counter() - run.started)
        case _:
            passage.wrote(index)


def _headers(run: _Run) -> dict[str, str]:
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
    if run.decided.rewrites:
        facts["x-appliance-params"] = ", ".join(_printable(str(rewrite)) for rewrite in run.decided.rewrites)
    if run.asked.ignored:
        facts["x-appliance-ignored"] = ", ".join(_printable(name) for name in run.asked.ignored[:32])
    return facts


def _printable(text: str) -> str:
    """Safe in a header, whatever a client sent."""
    return quote(text[:128], safe="=()>[]'._-:@+ ")
