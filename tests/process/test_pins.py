"""A model that is kept in memory by hand."""

import asyncio
import math

import pytest

from appliance.control.residency import EngineState
from appliance.errors import UnknownModel
from tests.process.site import answer


def now(supervisor):
    [status] = [status for status in supervisor.status() if status.name == "m" and not status.retired]
    return status


async def test_a_pin_holds_over_reloads_and_is_said_to_differ_from_the_file(site):
    site.script("m")
    model = {"idle_unload": "1ms"}
    deployment = site.deployment({"m": model})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        supervisor.pin("m", math.inf)
        await answer(supervisor, deployment)
        await supervisor.apply(site.deployment({"m": {**model, "context": "2k"}}))
        assert (now(supervisor).state, now(supervisor).drift) == (EngineState.READY, ("pinned by hand",))
        assert now(supervisor).idle_left is None
        supervisor.pin("m", 0)
        assert now(supervisor).drift == ()
        async with asyncio.timeout(30):
            while now(supervisor).state is not EngineState.COLD:
                await asyncio.sleep(0.005)


async def test_a_pin_ends_with_its_time(site):
    site.script("m")
    deployment = site.deployment({"m": {"idle_unload": "1ms"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        supervisor.pin("m", 0.2)
        await answer(supervisor, deployment)
        async with asyncio.timeout(30):
            while now(supervisor).state is not EngineState.COLD:
                await asyncio.sleep(0.005)
        assert now(supervisor).drift == ()


async def test_a_name_nobody_has_cannot_be_pinned(site):
    site.script("m")
    async with site.supervisor() as supervisor:
        await supervisor.apply(site.deployment({"m": {}}))
        with pytest.raises(UnknownModel, match="other"):
            supervisor.pin("other", 1)
