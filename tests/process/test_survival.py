"""What clients notice of engines that die: nothing, unless it is their own doing."""

import asyncio
import os
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appliance.control.generation import Deadlines
from appliance.control.residency import EngineState
from appliance.control.supervisor import Supervisor
from appliance.control.watchdog import Bound
from appliance.errors import EngineDied, EngineFault
from appliance.vocab.event import Event, Finished, Started, TextDelta
from tests.process.site import Site, answer

WORDS = ["red", "green", "blue", "white", "black", "grey", "pink"]
MANY = {"concurrency": 16}
BRISK = {"stall_target": "20ms"}
UNHURRIED = Deadlines(3600, 3600, 3600)
"""An answer may be killed many times over on a busy machine."""


def engine(supervisor: Supervisor, name: str = "m"):
    [status] = [status for status in supervisor.status() if status.name == name and not status.retired]
    return status


async def whole(supervisor, deployment, text, seen=lambda event: None, **sampling: Any) -> tuple[str, int, Finished]:
    """The text, what of the prompt was cached as told at the beginning, and the end."""
    told: list[Event] = []

    def note(event: Event) -> None:
        told.append(event)
        seen(event)

    text = await answer(supervisor, deployment, text=text, seen=note, deadlines=UNHURRIED, **sampling)
    [began] = [event.cached_tokens for event in told if isinstance(event, Started)]
    return text, began, told[-1]


# ---- poison
@pytest.mark.parametrize(
    "poison",
    [
        pytest.param({"crash_how": "abort"}, id="at once"),
        pytest.param({"crash_how": "exception"}, id="a Python exception"),
        pytest.param({"crash_how": "abort", "crash_after": 12}, id="after a while"),
        pytest.param({"crash_how": "exit", "crash_after": 40}, id="after more than its first probation"),
    ],
)
async def test_one_poison_request_among_sixteen_is_the_only_one_to_fail(site, poison):
    script = {"text": "{last} " * 60, "step_ms": 1, "crash_on": "poison", **poison}
    site.script("m", **script, when=[{"contains": "poison", "text": "{last} " * 300}])
    deployment = site.deployment({"m": MANY})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        texts = ["poison" if n == 7 else f"n{n}" for n in range(16)]
        answers = await asyncio.gather(
            *(answer(supervisor, deployment, text=text) for text in texts), return_exceptions=True
        )
        assert isinstance(answers.pop(7), EngineDied)
        assert answers == [f"{text} " * 60 for text in texts if text != "poison"]
        assert engine(supervisor).leases == 0


@pytest.mark.parametrize("at", ["wait", "launch", "open"])
async def test_a_request_its_device_faults_on_is_the_only_one_to_fail(site, at):
    poison = {"contains": "poison", "fault_after": 3, "fault_at": at}
    site.script("m", text="{last} " * 60, step_ms=1, when=[poison])
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        asked = (answer(supervisor, deployment, text=text) for text in ["a", "poison", "b", "c"])
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(answers.pop(1), EngineFault)
        assert answers == [f"{text} " * 60 for text in "abc"]


async def test_deaths_are_counted_and_degrade_the_model_until_somebody_is_served(site):
    site.script("m", crash_on="poison", crash_how="abort")
    deployment = site.deployment({"m": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        died = []
        supervisor.followers.died = lambda model, pid, end: died.append((model, end.code))
        with pytest.raises(EngineDied, match="twice with this request alone"):
            await answer(supervisor, deployment, text="poison")
        assert died == [("m", -signal.SIGABRT)] * 2
        assert supervisor.counts == {("loads", "m"): 2, ("deaths", "m"): 2}
        degraded = engine(supervisor).conditions[-1]
        assert (degraded.name, degraded.holds, degraded.reason) == ("Degraded", True, "EngineDeaths")
        await answer(supervisor, deployment)
        assert not engine(supervisor).conditions[-1].holds


# ---- hangs
async def test_an_engine_that_stops_answering_is_killed_and_its_streams_go_on(site):
    site.script("m", words=WORDS, length=80, step_ms=2)
    deployment = site.deployment({"m": {}}, engine=BRISK)
    async with site.supervisor(bound=Bound(2)) as supervisor:
        await supervisor.apply(deployment)
        asks = [{"text": "a", "temperature": 1.0, "seed": seed} for seed in (1, 2)]
        undisturbed = [await answer(supervisor, deployment, **ask) for ask in asks]
        stopped = []

        def stop_once(event: Event) -> None:
            if isinstance(event, TextDelta) and not stopped:
                stopped.append(engine(supervisor).pid)
                os.kill(stopped[0], signal.SIGSTOP)

        answers = await asyncio.gather(*(answer(supervisor, deployment, **ask, seen=stop_once) for ask in asks))
        assert answers == undisturbed
        assert engine(supervisor).pid != stopped[0]


async def test_a_request_its_engine_hangs_on_is_the_only_one_to_fail(site):
    site.script("m", text="{last} " * 60, step_ms=1, when=[{"contains": "poison", "hang_after": 3}])
    deployment = site.deployment({"m": {}}, engine=BRISK)
    async with site.supervisor(bound=Bound(1)) as supervisor:
        await supervisor.apply(deployment)
        texts = ["a", "poison", "b", "c"]
        asked = (answer(supervisor, deployment, text=text) for text in texts)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(answers.pop(1), EngineDied)
        assert answers == [f"{text} " * 60 for text in "abc"]


# ---- kills from outside
@dataclass
class Killer:
    """Kills the engine after random numbers of events; now and then also the one that loads in its place."""

    supervisor: Supervisor
    kills: int
    draw: random.Random
    done: int = 0
    left: int = 5
    last: int | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, event: Event) -> None:
        self.left -= isinstance(event, TextDelta)
        now = engine(self.supervisor)
        if self.left > 0 or self.over.is_set() or now.state is not EngineState.READY or now.pid == self.last:
            return
        self.last, self.left = now.pid, self.draw.randint(1, 120)
        os.kill(now.pid, signal.SIGKILL)
        self.done += 1
        if self.done == self.kills:
            self.over.set()


async def kill_under_streams(site: Site, model: dict[str, Any], asks: list[dict[str, Any]], kills: int) -> None:
    deployment = site.deployment({"m": model})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        undisturbed = [await whole(supervisor, deployment, **ask) for ask in asks]
        killer = Killer(supervisor, kills, random.Random(kills))

        async def ask_again(number: int) -> None:
            while not killer.over.is_set():
                text, began, end = await whole(supervisor, deployment, **asks[number], seen=killer.seen)
                before, _, finished = undisturbed[number]
                assert text == before
                assert end.reason == finished.reason
                assert end.usage.prompt_tokens == finished.usage.prompt_tokens
                assert end.usage.completion_tokens == finished.usage.completion_tokens
                assert end.usage.cached_tokens == began

        await asyncio.gather(*(ask_again(number) for number in range(len(asks))))
        assert killer.done == kills
        assert supervisor.counts["deaths", "m"] == kills
        assert engine(supervisor).leases == 0


def mixed(count: int) -> list[dict[str, Any]]:
    warm = {"temperature": 1.0}
    kinds = [{}, warm, {**warm, "max_tokens": 31}, {**warm, "stop": ("pink",)}]
    return [{"text": f"n{n}", "seed": n, **kinds[n % len(kinds)]} for n in range(count)]


FAKE = {"words": WORDS, "length": 60, "token_bytes": 2, "step_ms": 1, "load_ms": 10}


async def test_kills_at_random_moments_change_no_answer(site):
    site.script("m", **FAKE)
    await kill_under_streams(site, {"concurrency": 6}, mixed(16), kills=8)


@pytest.mark.proof
async def test_two_hundred_kills_over_sixteen_streams_change_no_answer(site):
    site.script("m", **FAKE)
    await kill_under_streams(site, {"concurrency": 6}, mixed(16), kills=200)


@pytest.mark.proof
@pytest.mark.model
async def test_twenty_kills_of_the_real_model_change_no_answer(site, smollm2: Path):
    asks = [
        {"text": "Write a short story about a cat.", "max_tokens": 60, "seed": 1, "temperature": 0.0},
        {"text": "Write a short story about a dog.", "max_tokens": 60, "seed": 2, "temperature": 1.0},
        {"text": "Count to one hundred.", "max_tokens": 60, "seed": 3, "temperature": 0.0},
        {"text": "What is a river?", "max_tokens": 60, "seed": 4, "temperature": 0.8},
    ]
    await kill_under_streams(site, {"source": str(smollm2), "dtype": "float32", "context": 512}, asks, kills=20)
