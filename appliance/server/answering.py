"""From a run to its events, of its model or of a fallback. Without HTTP: lines of batches are runs, too."""

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

import msgspec

from appliance import log
from appliance.config.deployment import Target
from appliance.config.peered import is_peer
from appliance.control.fallback import first_that_answers
from appliance.control.generation import Compose, Deadlines, generate
from appliance.control.keys import ruled
from appliance.control.lease import Lease
from appliance.control.router import failure_of
from appliance.errors import ApplianceError, BadRequest, EgressDenied, PromptTooLong
from appliance.protocols.adapter import Answer
from appliance.protocols.truncation import shortened
from appliance.server import elsewhere
from appliance.server.counting import texts_of
from appliance.server.observing import observed
from appliance.server.run import Run, decide_for
from appliance.server.submission import submission
from appliance.vocab.event import Event, Finished, Started, Usage
from appliance.vocab.request import TextPrompt, TokenPrompt
from appliance.vocab.spec import Submission

_NO_DEADLINES = Deadlines(math.inf, math.inf, math.inf)


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
    """The facts that the answer repeats. Texts of prompts given as token ids are asked of the model's tokenizer."""
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
    """The events of the generation, which is listed as running meanwhile; leaving the block stops the work.

    Once something is `committed` to the client no fallback takes over. Raises ApplianceError.
    """
    generating = first_that_answers(_attempts(run), lambda error: not committed() and _falls_back(run, error))
    try:
        async with (
            run.context.in_flight.one(run.entry),
            aclosing(generating) as events,
            aclosing(observed(run, events)) as told,
        ):
            yield told
    finally:
        run.caller.passage.close(run.model)


def _attempts(run: Run) -> list[Callable[[], AsyncGenerator[tuple[int, Event], None]]]:
    """Generations to try in turn: the model's own, unless it has failed too often lately, then its fallbacks'."""
    own = partial(_fitting, run, None)
    instead = [partial(_fitting, run, target) for target in run.route.fallbacks if _is_able(run, target)]
    if not instead:
        return [own]
    model, terms = run.model, run.deployment.routing.fallback[run.model]
    if run.context.traffic.trips.admits(model, terms.dwell, time.monotonic()):
        return [lambda: _tripping(run, own(), model, terms.trip), *instead]
    run.decision.changes.append(f"{model} is left alone: it failed {terms.trip} times in a row or more")
    return list(instead)


async def _tripping(
    run: Run, events: AsyncGenerator[tuple[int, Event], None], model: str, trip: int
) -> AsyncGenerator[tuple[int, Event], None]:
    """The same events; whether the model answered counts for or against trying it first the next time."""
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
        if not answered and _falls_back(run, error) and not isinstance(error, PromptTooLong):
            trips.failed(model, trip, time.monotonic())
        raise


def _is_able(run: Run, instead: Target) -> bool:
    """Whether a fallback can do what is asked. Routing has seen to that for models here; peers have more limits."""
    if not is_peer(instead.model):
        return True
    try:
        decide_for(run.caller, run.deployment, ruled(run.caller.key, instead), run.asked, 0)
    except BadRequest as refused:
        run.decision.changes.append(f"no fallback to {instead.model.name}: {refused.message}")
        return False
    return True


async def _fitting(run: Run, instead: Target | None) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of `_generate`; a prompt that is too long is shortened and tried again, where the request allows."""
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
    """The answer to a request to unload a model that is not in memory: it is not loaded for that."""
    yield 0, Started(0, 0)
    yield 0, Finished("length", Usage(0, 0))


def _generate(run: Run, instead: Target | None) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of the run's model; with `instead`, those of this fallback, which the run goes on with."""
    deadlines = _NO_DEADLINES if run.caller.background else Deadlines.of(run.deployment.server)
    if instead is not None:
        target = ruled(run.caller.key, instead)
        run.decided, run.keep = decide_for(run.caller, run.deployment, target, run.asked, run.decided.sampling.seed)
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
        wrote=run.caller.passage.wrote,
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
        run.route.estimate,
        deadlines,
    )


def _falls_back(run: Run, error: ApplianceError) -> bool:
    return failure_of(error) in run.route.falls_when


def _compose(run: Run, prompt: TextPrompt | TokenPrompt | None) -> Compose:
    def compose(lease: Lease) -> Submission:
        run.lease = lease
        return submission(
            lease.model, lease.info, run.asked, run.decided, prompt, run.caller.key, background=run.caller.background
        )

    return compose
