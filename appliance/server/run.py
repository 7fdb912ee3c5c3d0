"""One generation, from a body to its last event: decode, decide, generate. No HTTP: a batch runs it too."""

import asyncio
import math
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

import msgspec

from appliance import log
from appliance.config.deployment import Deployment, Target
from appliance.config.peered import is_peer
from appliance.config.sampling import Decided, decide
from appliance.control.fallback import first_that_answers
from appliance.control.generation import Compose, Deadlines, generate
from appliance.control.keys import accept, kept, priority, ruled
from appliance.control.lease import Lease
from appliance.control.router import Route, failure_of
from appliance.errors import ApplianceError, BadRequest, Cancelled, EgressDenied, EngineFault, PromptTooLong
from appliance.protocols.adapter import Answer, Decoded
from appliance.protocols.truncation import shortened
from appliance.server import elsewhere
from appliance.server.adapters import Adapter
from appliance.server.caller import Caller
from appliance.server.context import Context
from appliance.server.counting import texts_of
from appliance.server.decisions import Decision
from appliance.server.in_flight import Entry
from appliance.server.names import counted_as
from appliance.server.reused import Reused
from appliance.server.routing import route_of
from appliance.server.submission import submission
from appliance.vocab.event import Event, Finished, ReasoningDelta, Started, TextDelta, ToolCallDelta, Usage
from appliance.vocab.request import GenerateRequest, TextPrompt, TokenPrompt
from appliance.vocab.spec import Submission

LARGE_BODY = 1 << 20
"""Bytes from which decoding would be felt by other clients' streams."""

_NO_DEADLINES = Deadlines(math.inf, math.inf, math.inf)


@dataclass(slots=True)
class Run:
    """A request on its way; pins the deployment it began with."""

    context: Context
    adapter: Adapter
    deployment: Deployment
    generation: int
    decoded: Decoded
    target: Target
    decided: Decided
    route: Route
    caller: Caller
    started: float
    entry: Entry
    keep: float | None
    decision: Decision
    lease: Lease | None = None
    first_token: float | None = None
    begun: Started | None = None
    """The first of its answers to begin."""

    @property
    def asked(self) -> GenerateRequest:
        return self.decoded.request

    @property
    def model(self) -> str:
        return self.target.model.name

    @property
    def counted_as(self) -> str:
        """What metrics call it."""
        return counted_as(self.context, self.deployment, self.target.model)


async def begin(caller: Caller, context: Context, adapter: Adapter, body: bytes, started: float) -> Run:
    """Decode, route and decide. Raises ApplianceError."""
    deployment, generation = context.running.deployment, context.running.generation
    large = len(body) > LARGE_BODY
    decoded = await asyncio.to_thread(adapter.decode, body, context) if large else adapter.decode(body, context)
    asked = decoded.request
    route = route_of(caller, context, deployment, asked)
    decision = _decision(caller, asked, route)
    context.traffic.decisions.append(decision)
    target = ruled(caller.key, route.target)
    decided, keep = _decide(caller, deployment, target, asked, secrets.randbits(63))
    accept(caller.key, decided)
    entry = Entry(
        id=caller.id,
        answer=f"{adapter.prefix}{uuid4().hex}",
        endpoint=caller.path,
        model=target.model.name,
        asked_model=asked.model,
        started=time.time(),
        stream=asked.stream,
        key=caller.key_name,
        urgent=caller.urgent,
        rank=priority(caller.key, 0),
        size=len(body),
        rows=max(1, len(asked.prompts)) * asked.n,
    )
    return Run(
        context,
        adapter,
        deployment,
        generation,
        decoded,
        target,
        decided,
        route,
        caller,
        started,
        entry,
        keep,
        decision,
    )


def _decision(caller: Caller, asked: GenerateRequest, route: Route) -> Decision:
    return Decision(
        id=caller.id,
        time=time.time(),
        endpoint=caller.path,
        key=caller.key_name,
        asked=asked.model,
        rule=route.rule,
        reasons=route.reasons,
        served_by=route.target.model.name,
        fallbacks=tuple(target.model.name for target in route.fallbacks),
    )


def _decide(
    caller: Caller, deployment: Deployment, target: Target, asked: GenerateRequest, seed: int
) -> tuple[Decided, float | None]:
    """What it gets, and for how long its model stays afterwards where it speaks of that."""
    decided = decide(deployment, target, asked, seed)
    keep, cut = kept(caller.key, asked.keep_alive)
    stripped = elsewhere.left_out(deployment, target, asked, decided) if is_peer(target.model) else ()
    return replace(decided, rewrites=(*decided.rewrites, *stripped, *cut)), keep


async def whole(run: Run) -> bytes:
    """The body of an answer that does not stream. Raises ApplianceError."""
    fold = run.decoded.whole(await answer(run))
    async with events_of(run, lambda: False) as events:
        async for index, event in events:
            fold.feed(index, event)
    body = fold.body()
    run.adapter.ended(run.context, fold)
    return body


async def answer(run: Run) -> Answer:
    """What its answer repeats; the texts of prompts may have to be asked of the model."""
    asked = run.asked
    return Answer(
        id=run.entry.answer,
        created=int(run.entry.started),
        model=asked.model,
        choices=run.entry.rows,
        include_usage=asked.include_usage,
        clock=lambda: time.perf_counter() - run.started,
        prompts=await texts_of(run.context, run.target.model, asked.prompts) if run.decoded.echoes else (),
    )


@asynccontextmanager
async def events_of(run: Run, committed: Callable[[], bool]) -> AsyncIterator[AsyncIterator[tuple[int, Event]]]:
    """The generation's events, listed as running; leaving the block stops the work. Raises ApplianceError.

    Once something is `committed` no other model takes over.
    """
    generating = first_that_answers(_attempts(run), lambda error: not committed() and _falls(run, error))
    try:
        async with (
            run.context.in_flight.one(run.entry),
            aclosing(generating) as events,
            aclosing(_told(run, events)) as told,
        ):
            yield told
    finally:
        run.caller.passage.close(run.model)


def _attempts(run: Run) -> list[Callable[[], AsyncGenerator[tuple[int, Event], None]]]:
    """The model's own, unless it has failed too often lately, then those of others that can do what is asked."""
    own = partial(_fitting, run, None)
    instead = [partial(_fitting, run, target) for target in run.route.fallbacks if _can(run, target)]
    if not instead:
        return [own]
    model, terms = run.model, run.deployment.routing.fallback[run.model]
    if run.context.traffic.trips.admits(model, terms.dwell, time.monotonic()):
        return [lambda: _watched(run, own(), model, terms.trip), *instead]
    run.decision.changes.append(f"{model} is left alone: it failed {terms.trip} times in a row or more")
    return list(instead)


async def _watched(
    run: Run, events: AsyncGenerator[tuple[int, Event], None], model: str, trip: int
) -> AsyncGenerator[tuple[int, Event], None]:
    """The same events; whether there were any is remembered."""
    trips, answered = run.context.traffic.trips, False
    try:
        async with aclosing(events):
            async for item in events:
                if not answered:
                    answered = True
                    trips.answered(model)
                yield item
    except ApplianceError as error:
        # A prompt that is too long says nothing of the model.
        if not answered and _falls(run, error) and not isinstance(error, PromptTooLong):
            trips.failed(model, trip, time.monotonic())
        raise


def _can(run: Run, instead: Target) -> bool:
    """Whether it is no use to ask another server, since it lacks what the request needs."""
    if not is_peer(instead.model):
        return True
    try:
        _decide(run.caller, run.deployment, ruled(run.caller.key, instead), run.asked, 0)
    except BadRequest as refused:
        run.decision.changes.append(f"no fallback to {instead.model.name}: {refused.message}")
        return False
    return True


async def _fitting(run: Run, instead: Target | None) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of `_generate`, once as much is left out of the request as may be and has to be."""
    while True:
        try:
            async with aclosing(_generate(run, instead)) as events:
                async for event in events:
                    yield event
            return
        except PromptTooLong:
            less = shortened(run.asked.messages) if run.asked.truncates else None
            if less is None:
                raise
            run.decoded = replace(run.decoded, request=msgspec.structs.replace(run.asked, messages=less))


async def _unloaded() -> AsyncGenerator[tuple[int, Event], None]:
    """What a model that is to leave memory says where it is not there: it must not be loaded for that."""
    yield 0, Started(0, 0)
    yield 0, Finished("length", Usage(0, 0))


def _generate(run: Run, instead: Target | None) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of the run's model; with `instead`, of the one that takes over."""
    deadlines = Deadlines.of(run.deployment.server) if run.caller.urgent else _NO_DEADLINES
    if instead is not None:
        target = ruled(run.caller.key, instead)
        run.decided, run.keep = _decide(run.caller, run.deployment, target, run.asked, run.decided.sampling.seed)
        log.get().warning("route.fallback", to=target.model.name)
        run.decision.changes.append(f"falls back to {target.model.name}")
        run.decision.served_by = target.model.name
        run.target, run.entry.model, run.lease = target, target.model.name, None
        left = deadlines.request - (time.perf_counter() - run.started)
        deadlines = replace(deadlines, request=max(0.0, left))
    if is_peer(run.target.model):
        return _elsewhere(run, deadlines)
    if run.decoded.unloads and run.context.supervisor.at_rest(run.target.model.name):
        return _unloaded()
    prompts = run.asked.prompts
    compose = tuple(_compose(run, prompt) for prompt in prompts) if prompts else _compose(run, None)
    # Where another model can take over, nobody sits through loads that fail again and again.
    hasty = instead is None and bool(run.route.fallbacks) and "load_failed" in run.route.falls_when
    return generate(
        run.context.supervisor,
        run.target.model,
        compose,
        n=run.asked.n,
        deadlines=deadlines,
        keep=run.keep,
        hasty=hasty,
    )


def _elsewhere(run: Run, deadlines: Deadlines) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of a peer. Raises EgressDenied whatever routing has decided."""
    if run.caller.key is not None and run.caller.key.egress == "deny":
        raise EgressDenied(f"requests of the key `{run.caller.key.name}` may not leave this machine", param="model")
    return elsewhere.generate(
        run.context.traffic.peers,
        run.deployment,
        run.target,
        run.asked,
        run.decided,
        run.caller,
        run.route.about,
        deadlines,
    )


def _falls(run: Run, error: ApplianceError) -> bool:
    return failure_of(error) in run.route.falls_when


def _compose(run: Run, prompt: TextPrompt | TokenPrompt | None) -> Compose:
    def compose(lease: Lease) -> Submission:
        run.lease = lease
        return submission(
            lease.model, lease.info, run.asked, run.decided, prompt, run.caller.key, urgent=run.caller.urgent
        )

    return compose


async def _told(run: Run, events: AsyncIterator[tuple[int, Event]]) -> AsyncGenerator[tuple[int, Event], None]:
    """What the client is told of the events, all of them counted."""
    async for index, event in events:
        _count(run, index, event)
        if run.asked.shows_stop and isinstance(event, Finished) and event.stop is not None:
            yield index, TextDelta(event.stop)
        if isinstance(event, ReasoningDelta) and not run.decided.sampling.include_reasoning:
            continue
        if run.asked.parallel_calls or not isinstance(event, ToolCallDelta) or event.index == 0:
            yield index, event


def _warn(run: Run, warnings: tuple[tuple[str, int], ...]) -> None:
    """What looked like a call and became text: a sign of a wrong dialect, or of a model that makes mistakes."""
    if not warnings:
        return
    log.get().warning("generation.call_is_text", model=run.model, reasons=dict(warnings))
    for reason, times in warnings:
        run.context.counted.no_calls.add(run.counted_as, _kind(reason), by=times)


def _kind(reason: str) -> str:
    """A warning without the name in it: names are the model's own invention, and none has a label of its own."""
    return re.split(r" ['\"]", reason, maxsplit=1)[0]


def _count(run: Run, index: int, event: Event) -> None:
    counted, passage = run.context.counted, run.caller.passage
    if run.first_token is None and not isinstance(event, Started):
        run.first_token = time.perf_counter() - run.started
        counted.first_token.observe(run.counted_as, value=run.first_token)
    match event:
        case Started(prompt_tokens, cached_tokens):
            if run.begun is None and not is_peer(run.target.model):
                run.begun = event
                run.context.reused.append(Reused(run.entry.id, time.time(), run.model, run.entry.key, event))
            run.entry.prompt_tokens = prompt_tokens
            run.context.begun.append(time.monotonic())
            # Several answers to a prompt read it once.
            if index % run.asked.n == 0:
                passage.read(index, prompt_tokens, cached_tokens)
        case Finished("cancelled"):
            raise Cancelled("the generation was cancelled")
        case Finished("error"):
            raise EngineFault("the generation failed")
        case Finished(_, usage, _, warnings):
            _warn(run, warnings)
            if index % run.asked.n == 0:
                passage.read(index, usage.prompt_tokens, usage.cached_tokens)
            passage.finished(index, usage.completion_tokens)
            counted.generated.add(run.counted_as, by=usage.completion_tokens)
            counted.prompt.add(run.counted_as, by=usage.prompt_tokens)
            counted.cached.add(run.counted_as, by=usage.cached_tokens)
            if not run.asked.prompts and not is_peer(run.target.model):
                run.context.traffic.scales.read(run.target.model.family.name, run.route.about, usage.prompt_tokens)
            if usage.guessed:
                counted.guessed.add(run.counted_as, "right", by=usage.right)
                counted.guessed.add(run.counted_as, "wrong", by=usage.guessed - usage.right)
            counted.seconds.observe(run.counted_as, value=time.perf_counter() - run.started)
        case _:
            passage.wrote(index)
