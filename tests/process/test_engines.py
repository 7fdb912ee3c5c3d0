"""The supervisor with real engine processes."""

import asyncio
import io
import json
import os
import signal
from contextlib import aclosing
from functools import partial

import pytest

from appliance import log
from appliance.control.generation import Deadlines, generate
from appliance.control.residency import EngineState
from appliance.control.watchdog import Bound
from appliance.errors import (
    EngineDied,
    EngineFault,
    LoadFailed,
    SourceError,
    TemplateFailed,
    TimedOut,
    Unavailable,
    UnknownModel,
)
from appliance.vocab.event import Finished, Started, TextDelta
from tests.process.site import PATIENT, answer, composing, stopped

STORY = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


def one(supervisor, name="m"):
    [status] = [status for status in supervisor.status() if status.name == name and not status.retired]
    return status


async def until(supervisor, holds, name="m"):
    """Wait for a state of affairs by asking each turn of the loop."""
    async with asyncio.timeout(30):
        while not holds(one(supervisor, name)):
            await asyncio.sleep(0.005)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def begun_with(begun, event):
    if isinstance(event, TextDelta):
        begun.set()


async def test_the_first_request_loads_and_concurrent_ones_share_the_load(site):
    site.script("m", text="you said {last}", load_ms=200)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        assert one(supervisor).state is EngineState.COLD
        pids = set()

        async def ask(text):
            async with supervisor.acquire(deployment.models["m"]) as lease:
                pids.add(lease.handle.pid)
                assert lease.load_seconds > 0
            return await answer(supervisor, deployment, text=text)

        answers = await asyncio.gather(*(ask(f"number {n}") for n in range(8)))
        assert answers == [f"you said number {n}" for n in range(8)]
        assert len(pids) == 1
        async with supervisor.acquire(deployment.models["m"]) as lease:
            assert lease.load_seconds == 0


async def test_an_engine_does_not_log_under_the_request_that_loaded_it(site):
    site.script("m")
    deployment = site.deployment({"m": {}})
    stream = io.StringIO()
    log.configure("json", "info", stream)
    try:
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)
            with log.bound(request="r1"):
                await answer(supervisor, deployment)
    finally:
        log.configure()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["model.loading", "model.ready", "engine.gone"]
    assert not any("request" in event for event in events)


async def test_two_models_of_one_script_share_one_engine(site):
    site.script("m")
    deployment = site.deployment({"m": {}, "twin": {"source": "fake:m.yaml"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        await answer(supervisor, deployment, "m")
        await answer(supervisor, deployment, "twin")
        assert one(supervisor, "m").pid == one(supervisor, "twin").pid is not None


async def test_an_idle_engine_ends_its_process_and_loads_again(site):
    site.script("m")
    deployment = site.deployment({"m": {"idle_unload": "50ms"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        await answer(supervisor, deployment)
        first = one(supervisor).pid
        await until(supervisor, lambda status: status.state is EngineState.COLD)
        assert not alive(first)
        assert await answer(supervisor, deployment) == "hello"
        assert one(supervisor).pid not in (None, first)


async def test_a_stream_goes_on_exactly_where_its_engine_died(site):
    script = {"words": ["red", "green", "blue", "white", "black"], "length": 40, "step_ms": 2}
    site.script("m", **script)
    site.script("crashing", **script, crash_after=13, crash_times=2)
    deployment = site.deployment({"m": {}, "crashing": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        told = {"m": [], "crashing": []}
        texts = [
            await answer(supervisor, deployment, name, temperature=1.0, seed=7, seen=told[name].append)
            for name in told
        ]
        assert texts[0] == texts[1]
        assert [event for event in told["crashing"] if isinstance(event, Started)] == told["m"][:1]
        plain, resumed = told["m"][-1], told["crashing"][-1]
        assert resumed.reason == plain.reason
        assert resumed.usage.prompt_tokens == plain.usage.prompt_tokens
        assert resumed.usage.completion_tokens == plain.usage.completion_tokens


async def test_every_stream_survives_a_kill_from_outside(site):
    site.script("m", text=STORY + " {last}", step_ms=5)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        killed = []

        def kill_once(event):
            if isinstance(event, TextDelta) and not killed:
                killed.append(one(supervisor).pid)
                os.kill(killed[0], signal.SIGKILL)

        answers = await asyncio.gather(
            *(answer(supervisor, deployment, text=f"n{n}", seen=kill_once) for n in range(4))
        )
        assert answers == [f"{STORY} n{n}" for n in range(4)]
        assert one(supervisor).pid != killed[0]


async def test_a_request_that_kills_its_engine_each_time_fails(site):
    site.script("m", crash_on="poison", crash_how="abort")
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(EngineDied, match="the engine of m ended"):
            await answer(supervisor, deployment, text="poison")
        assert await answer(supervisor, deployment, text="harmless") == "harmless"


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_leaving_early_frees_the_row(site, way):
    site.script("m", text="and on ", endless=True, step_ms=1)
    deployment = site.deployment({"m": {"concurrency": 1}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)

        async def first_text():
            events = generate(supervisor, deployment.models["m"], composing(), deadlines=PATIENT)
            async with aclosing(events):
                async for _, event in events:
                    if isinstance(event, TextDelta):
                        if way == "cancel":
                            asyncio.current_task().cancel()
                            await asyncio.Event().wait()
                        return

        task = asyncio.create_task(first_text())
        await asyncio.wait([task])
        assert task.cancelled() == (way == "cancel")
        assert one(supervisor).leases == 0
        async with supervisor.acquire(deployment.models["m"]) as lease, asyncio.timeout(10):
            while (await lease.handle.ping()).gauges.running:
                pass
        assert await answer(supervisor, deployment, max_tokens=5)


async def test_several_answers_differ_by_seed_and_are_told_apart(site):
    site.script("m", words=["a", "b", "c", "d", "e", "f"], length=12)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        texts, ends = ["", "", ""], 0
        several = generate(
            supervisor, deployment.models["m"], composing(temperature=1.0, seed=4), n=3, deadlines=PATIENT
        )
        async for index, event in several:
            if isinstance(event, TextDelta):
                texts[index] += event.text
            ends += isinstance(event, Finished)
        alone = [await answer(supervisor, deployment, temperature=1.0, seed=seed) for seed in (4, 5, 6)]
        assert texts == alone
        assert len(set(texts)) == 3
        assert ends == 3


@pytest.mark.parametrize(
    "script, error",
    [
        pytest.param({"fault_after": 2}, EngineFault, id="a fault of one sequence"),
        pytest.param({"fail_render": "hello"}, TemplateFailed, id="a refused template"),
    ],
)
@pytest.mark.parametrize("n", [1, 3])
async def test_what_the_engine_reports_is_raised_and_it_lives_on(site, script, error, n):
    site.script("m", text=STORY, **script)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(error):
            async for _ in generate(supervisor, deployment.models["m"], composing(), n=n, deadlines=PATIENT):
                pass
        status = one(supervisor)
        assert (status.state, status.leases) == (EngineState.READY, 0)


@pytest.mark.parametrize(
    "script, deadlines, setting",
    [
        pytest.param({"load_ms": 60000}, Deadlines(0.3, 9, 9), "first_token_timeout", id="while loading"),
        pytest.param({"hang_after": 0}, Deadlines(2, 9, 9), "first_token_timeout", id="before the first token"),
        pytest.param({"text": STORY, "hang_after": 3}, Deadlines(9, 0.3, 9), "idle_timeout", id="in the middle"),
        pytest.param(
            {"text": "on ", "endless": True, "step_ms": 5, "context": 1000000},
            Deadlines(9, 9, 1.5),
            "request_timeout",
            id="in all",
        ),
    ],
)
async def test_each_deadline_ends_a_generation(site, script, deadlines, setting):
    site.script("m", **script)
    deployment = site.deployment({"m": {"context": "1000k"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(TimedOut, match=setting):
            await answer(supervisor, deployment, deadlines=deadlines)
        assert one(supervisor).leases == 0


# ---- loads that fail
async def test_a_permanent_load_failure_is_told_at_once_from_then_on(site):
    site.script("m", fail_load="no such layer", permanent=True)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        for _ in range(2):
            with pytest.raises(LoadFailed, match="no such layer") as caught:
                await answer(supervisor, deployment)
            assert caught.value.permanent
        assert one(supervisor).conditions[-1].reason == "PermanentFailure"


@pytest.mark.parametrize("times", [1, 3])
async def test_engines_that_die_in_their_load_are_replaced_without_the_client_noticing(site, times):
    site.script("m", crash_load=True, crash_times=times)
    deployment = site.deployment({"m": {"retry_load": {"first": "20ms"}}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        assert await asyncio.gather(*(answer(supervisor, deployment) for _ in range(3))) == ["hello"] * 3
        assert supervisor.counts["load_failures", "m"] == times


async def test_who_comes_in_the_pause_of_engines_that_died_in_their_load_waits_for_the_next_one(site):
    site.script("m", crash_load=True, crash_times=2)
    deployment = site.deployment({"m": {"retry_load": {"first": "1h", "max": "1h"}}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        first = asyncio.create_task(answer(supervisor, deployment))
        await until(
            supervisor,
            lambda status: status.state is EngineState.COLD and supervisor.counts["load_failures", "m"] == 2,
        )
        second = asyncio.create_task(answer(supervisor, deployment))
        with pytest.raises(LoadFailed, match="ended while it was loading") as told:
            await answer(supervisor, deployment, hasty=True)
        assert told.value.retry_after == pytest.approx(3600, abs=600)
        await until(supervisor, lambda status: status.waiting == 2)
        assert not first.done()
        assert not second.done()
        supervisor.load("m")  # somebody does not want to wait for the end of the pause
        assert await asyncio.gather(first, second) == ["hello"] * 2


@pytest.mark.parametrize(
    "script, retry, hasty, permanent",
    [
        pytest.param({"fail_load": "no memory"}, {}, False, False, id="for a reason that may pass"),
        pytest.param({"crash_load": True}, {}, True, False, id="by dying, where another model can take over"),
        pytest.param({"crash_load": True}, {"first": "20ms", "tries": 3}, False, True, id="by dying, for good"),
    ],
)
async def test_a_load_that_keeps_failing_says_when_to_come_back(site, script, retry, hasty, permanent):
    site.script("m", **script)
    deployment = site.deployment({"m": {"retry_load": {"first": "60s", **retry}}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(LoadFailed, match=r"no memory|ended while it was loading") as caught:
            await answer(supervisor, deployment, hasty=hasty)
        assert caught.value.permanent == permanent
        assert permanent or caught.value.retry_after == pytest.approx(60, abs=5)


async def test_a_load_that_takes_too_long_is_ended(site):
    site.script("m", load_ms=60000)
    deployment = site.deployment({"m": {"load_timeout": "200ms"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(LoadFailed, match=r"longer than its load_timeout of 0\.2 s"):
            await answer(supervisor, deployment)
        await until(supervisor, lambda status: status.pid is None)


@pytest.mark.parametrize("spare", [False, True], ids=["a new process", "the spare"])
async def test_an_engine_that_is_stopped_in_its_load_is_ended_and_another_one_loads(site, spare):
    site.script("m", load_ms=3_600_000)
    deployment = site.deployment({"m": {"retry_load": {"first": "20ms", "tries": 100}}}, engine={"spare": spare})
    async with site.supervisor(bound=Bound(1)) as supervisor:
        await supervisor.apply(deployment)
        asked = asyncio.create_task(answer(supervisor, deployment))
        await until(supervisor, lambda status: status.load is not None and status.load[0] == "weights")
        pid = one(supervisor).pid
        await stopped(pid)
        site.script("m")
        assert await asked == "hello"
        assert supervisor.counts["load_failures", "m"] >= 1
        assert not alive(pid)


async def test_files_that_vanished_are_named_and_found_once_they_are_back(site):
    script = site.script("m")
    deployment = site.deployment({"m": {}})
    script.unlink()
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(SourceError, match=r"no model at fake:m\.yaml"):
            await answer(supervisor, deployment)
        site.script("m")
        await supervisor.apply(site.read())
        assert await answer(supervisor, site.read()) == "hello"


async def test_a_model_too_large_for_the_budget_is_refused_with_the_numbers(site):
    site.script("m")
    deployment = site.deployment({"m": {}}, memory={"budget": "64MiB"})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(Unavailable, match=r"m needs 64\.0 MiB of memory; memory\.budget"):
            await answer(supervisor, deployment)


# ---- unloaded by hand
async def test_who_wants_the_memory_at_once_does_not_wait_for_an_engine_that_answers_nothing(site):
    names = ("asked", "killed")
    for name in names:
        site.script(name)
    deployment = site.deployment({name: {"source": f"fake:{name}.yaml"} for name in names})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        for name in names:
            await answer(supervisor, deployment, name)
            await stopped(one(supervisor, name).pid)
            supervisor.unload(name, at_once=name == "killed")
        await until(supervisor, lambda status: status.pid is None, "killed")
        assert one(supervisor, "asked").pid is not None, "it has some seconds to write what it knows"
        supervisor.unload("asked", at_once=True)
        await until(supervisor, lambda status: status.pid is None, "asked")


# ---- other deployments while streaming
async def test_deployments_change_around_a_running_stream(site):
    site.script("m", text=STORY, step_ms=5)
    site.script("gone", text=STORY, step_ms=5)
    site.script("other", text="other")
    before = site.deployment({"m": {}, "gone": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        running, streaming = [], []
        for name in ("m", "gone"):
            begun = asyncio.Event()
            seen = partial(begun_with, begun)
            running.append(asyncio.create_task(answer(supervisor, before, name, seen=seen)))
            streaming.append(begun.wait())
        await asyncio.gather(*streaming)
        pids = {status.name: status.pid for status in supervisor.status()}
        after = site.deployment({"m": {"idle_unload": "1h"}, "other": {}})
        await supervisor.apply(after)

        with pytest.raises(UnknownModel):
            await answer(supervisor, before, "gone")
        assert await answer(supervisor, after, "other") == "other"
        assert await asyncio.gather(*running) == [STORY, STORY]
        assert one(supervisor, "m").pid == pids["m"], "an unchanged fingerprint keeps its process"
        async with asyncio.timeout(20):
            while alive(pids["gone"]):
                await asyncio.sleep(0.005)


async def test_a_changed_script_gets_a_new_engine_and_running_streams_finish_on_the_old(site):
    site.script("m", text=STORY, step_ms=5)
    before = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        streaming = asyncio.Event()
        old = asyncio.create_task(answer(supervisor, before, seen=partial(begun_with, streaming)))
        await streaming.wait()
        site.script("m", text="new")
        after = site.read()
        await supervisor.apply(after)
        assert await answer(supervisor, after) == "new"
        assert await old == STORY


async def test_closing_lets_streams_finish_and_refuses_new_requests(site):
    site.script("m", text=STORY, step_ms=5)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        streaming = asyncio.Event()
        running = asyncio.create_task(answer(supervisor, deployment, seen=partial(begun_with, streaming)))
        await streaming.wait()
        pid = one(supervisor).pid
        closing = asyncio.create_task(supervisor.close(30))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await answer(supervisor, deployment)
        assert await running == STORY
        await closing
        assert not alive(pid)


async def test_closing_without_patience_ends_the_stream_with_an_error(site):
    site.script("m", text="on ", endless=True, step_ms=1)
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        streaming = asyncio.Event()
        running = asyncio.create_task(answer(supervisor, deployment, seen=partial(begun_with, streaming)))
        await streaming.wait()
        pid = one(supervisor).pid
        await supervisor.close(0)
        assert not alive(pid)
        with pytest.raises(Unavailable, match="shutting down"):
            await running
