"""Prompts of models that are not in memory are counted without loading them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from appliance.config.deployment import Deployment
from appliance.control.footprint import FAKE_BASE_BYTES
from appliance.control.residency import EngineState
from appliance.control.supervisor import Supervisor
from appliance.control.watchdog import Bound
from appliance.errors import EngineDied, LoadFailed, TemplateFailed, Unavailable
from appliance.vocab.request import Message, TextPrompt
from appliance.vocab.spec import ChatPrompt
from tests.process.site import Site, stopped

PATIENCE = 30
PROMPT = ChatPrompt(messages=(Message(role="user", content="how many tokens"),))


@asynccontextmanager
async def serving(site: Site, deployment: Deployment, **options: Any) -> AsyncIterator[Supervisor]:
    async with Supervisor(site.store, environ=os.environ, **options) as supervisor:
        await supervisor.apply(deployment)
        yield supervisor


def states(supervisor: Supervisor) -> dict[str, EngineState]:
    return {status.name: status.state for status in supervisor.status()}


async def counted(supervisor: Supervisor, deployment: Deployment, name: str, prompt: Any = PROMPT) -> tuple[int, int]:
    """How many tokens, and which process says so."""
    async with supervisor.reading(deployment.models[name]) as handle:
        return (await handle.count(prompt)).count, handle.pid


async def test_a_count_loads_nothing_and_is_the_engines(site: Site) -> None:
    site.script("m", load_ms=60_000)
    site.script("n")
    deployment = site.deployment({"m": {}, "n": {}})
    async with serving(site, deployment) as supervisor:
        cold, reader = await counted(supervisor, deployment, "n")
        assert await counted(supervisor, deployment, "m") == (cold, (await counted(supervisor, deployment, "m"))[1])
        assert set(states(supervisor).values()) == {EngineState.COLD}
        assert not supervisor.counts
        async with supervisor.acquire(deployment.models["n"]) as lease:
            warm, engine = await counted(supervisor, deployment, "n")
            assert (warm, engine) == (cold, lease.handle.pid)
            assert engine != reader


async def test_many_counts_share_one_process(site: Site) -> None:
    site.script("m")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        counts = await asyncio.gather(*(counted(supervisor, deployment, "m") for _ in range(20)))
        assert len(set(counts)) == 1


async def test_what_counts_ends_when_it_is_idle_and_starts_again(site: Site) -> None:
    site.script("m")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment, reader_idle=0.05) as supervisor:
        async with supervisor.reading(deployment.models["m"]) as handle:
            assert (await handle.count(PROMPT)).count
        async with asyncio.timeout(PATIENCE):
            assert (await handle.ended()).code == 0
        _, again = await counted(supervisor, deployment, "m")
        assert again != handle.pid


async def test_one_that_answers_nothing_is_killed_and_another_one_counts(site: Site) -> None:
    site.script("m")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        supervisor.readers.bound = Bound(0.2)
        _, first = await counted(supervisor, deployment, "m")
        await stopped(first)
        with pytest.raises(EngineDied):
            await counted(supervisor, deployment, "m")
        _, second = await counted(supervisor, deployment, "m")
        assert second != first


async def test_weights_that_cannot_be_loaded_do_not_matter(site: Site) -> None:
    site.script("m", fail_load="the weights are cut off", permanent=True)
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        assert (await counted(supervisor, deployment, "m"))[0] > 0
        with pytest.raises(LoadFailed):
            async with supervisor.acquire(deployment.models["m"]):
                pass
        assert (await counted(supervisor, deployment, "m"))[0] > 0


async def test_what_a_template_refuses_is_said(site: Site) -> None:
    site.script("m", fail_render="tokens")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        with pytest.raises(TemplateFailed, match="refuses"):
            await counted(supervisor, deployment, "m")
        assert (await counted(supervisor, deployment, "m", TextPrompt(text="fine")))[0] > 0


async def test_only_so_many_are_kept(site: Site) -> None:
    names = [f"m{n}" for n in range(7)]
    for name in names:
        site.script(name)
    deployment = site.deployment({name: {} for name in names})
    async with serving(site, deployment) as supervisor:
        pids = [(await counted(supervisor, deployment, name))[1] for name in names]
        assert len(set(pids)) == 7
        async with asyncio.timeout(PATIENCE):
            while len(supervisor.readers) > 4:
                await asyncio.sleep(0)


async def test_they_count_in_the_budget_and_end_when_their_model_is_loaded(site: Site) -> None:
    site.script("m")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        assert supervisor.readers.bytes == 0
        await counted(supervisor, deployment, "m")
        assert supervisor.readers.bytes == FAKE_BASE_BYTES
        async with supervisor.acquire(deployment.models["m"]), asyncio.timeout(PATIENCE):
            while len(supervisor.readers):
                await asyncio.sleep(0)
            assert supervisor.readers.bytes == 0


async def test_nothing_is_counted_once_it_is_over(site: Site) -> None:
    site.script("m")
    deployment = site.deployment({"m": {}})
    async with serving(site, deployment) as supervisor:
        await counted(supervisor, deployment, "m")
        await supervisor.close(0)
        with pytest.raises(Unavailable):
            await counted(supervisor, deployment, "m")
