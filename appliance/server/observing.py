"""Counts each event of a run (metrics, usage, requests in progress) and leaves out what its client is not to get."""

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator

from appliance import log
from appliance.config.peered import is_peer
from appliance.errors import Cancelled, EngineFault
from appliance.server.reused import Reused
from appliance.server.run import Run
from appliance.vocab.event import Event, Finished, ReasoningDelta, Started, TextDelta, ToolCallDelta


async def observed(run: Run, events: AsyncIterator[tuple[int, Event]]) -> AsyncGenerator[tuple[int, Event], None]:
    """The events the client is to get; all of them are counted. Raises Cancelled, EngineFault."""
    async for index, event in events:
        _count(run, index, event)
        if run.asked.shows_stop and isinstance(event, Finished) and event.stop is not None:
            yield index, TextDelta(event.stop)
        if isinstance(event, ReasoningDelta) and not run.decided.sampling.include_reasoning:
            continue
        if run.asked.parallel_calls or not isinstance(event, ToolCallDelta) or event.index == 0:
            yield index, event


def _count(run: Run, index: int, event: Event) -> None:
    if run.first_token is None and not isinstance(event, Started):
        run.first_token = time.perf_counter() - run.started
        run.context.counted.first_token.observe(run.counted_as, value=run.first_token)
    match event:
        case Started():
            _count_started(run, index, event)
        case Finished("cancelled"):
            raise Cancelled("the generation was cancelled")
        case Finished("error"):
            raise EngineFault("the generation failed")
        case Finished():
            _count_finished(run, index, event)
        case _ if is_peer(run.target.model):
            run.caller.passage.wrote(index, 1)  # a peer does not say how many tokens a piece of text has


def _count_started(run: Run, index: int, event: Started) -> None:
    if run.begun is None and not is_peer(run.target.model):
        run.begun = event
        run.context.reused.append(Reused(run.entry.id, time.time(), run.model, run.entry.key, event))
    run.entry.prompt_tokens = event.prompt_tokens
    run.context.begun.append(time.monotonic())
    if _is_first(run, index):
        run.caller.passage.read(index, event.prompt_tokens, event.cached_tokens)


def _count_finished(run: Run, index: int, event: Finished) -> None:
    counted, passage, usage = run.context.counted, run.caller.passage, event.usage
    _warn(run, event.warnings)
    if _is_first(run, index):
        passage.read(index, usage.prompt_tokens, usage.cached_tokens)
    passage.finished(index, usage.completion_tokens)
    counted.generated.add(run.counted_as, by=usage.completion_tokens)
    counted.prompt.add(run.counted_as, by=usage.prompt_tokens)
    counted.cached.add(run.counted_as, by=usage.cached_tokens)
    if not run.asked.prompts and not is_peer(run.target.model):
        run.context.traffic.scales.read(run.target.model.family.name, run.route.estimate, usage.prompt_tokens)
    if usage.drafted:
        counted.drafted.add(run.counted_as, "accepted", by=usage.accepted)
        counted.drafted.add(run.counted_as, "rejected", by=usage.drafted - usage.accepted)
    counted.seconds.observe(run.counted_as, value=time.perf_counter() - run.started)


def _is_first(run: Run, index: int) -> bool:
    """Of the answers to one prompt, which is read only once."""
    return index % run.asked.n == 0


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
