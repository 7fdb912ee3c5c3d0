"""An engine that is rebuilt by a reload: what worked is given up only for what works."""

import asyncio

import pytest

from appliance.errors import LoadFailed
from tests.process.site import answer

FAILING = [
    pytest.param({"fail_load": "the weights are cut off", "permanent": True}, "cut off", id="its load fails"),
    pytest.param({"fault_after": 0}, "cannot generate", id="its first token fails"),
    pytest.param({"crash_after": 0}, "died of the first token", id="it dies of its first token"),
    pytest.param({"crash_load": True}, "while it was loading", id="it dies in its load, twice"),
]
MEMORY = [pytest.param("1GiB", id="both fit"), pytest.param("100MiB", id="one fits")]


def now(supervisor):
    [status] = [status for status in supervisor.status() if status.name == "m" and not status.retired]
    return status


async def rolled_back(supervisor):
    async with asyncio.timeout(60):
        while now(supervisor).conditions[-1].reason != "RolledBack":
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("budget", MEMORY)
@pytest.mark.parametrize("script, why", FAILING)
async def test_a_new_engine_that_fails_is_replaced_by_the_old_one(site, script, why, budget):
    site.script("old", text="old")
    site.script("new", text="new", **script)
    memory = {"budget": budget, "queue": {"min_resident": "0s"}}
    before = site.deployment({"m": {"source": "fake:old.yaml"}}, memory=memory)
    after = site.deployment({"m": {"source": "fake:new.yaml"}}, memory=memory)
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        assert await answer(supervisor, before) == "old"
        pid = now(supervisor).pid
        await supervisor.apply(after)
        # Whoever comes meanwhile is answered too, by what works.
        assert await answer(supervisor, after) == "old"
        await rolled_back(supervisor)
        assert why in now(supervisor).conditions[-1].message
        assert (now(supervisor).pid == pid) == (budget == "1GiB")
        # It is not tried again with every change of something else.
        site.script("other")
        loads = supervisor.counts["load_failures", "m"]
        await supervisor.apply(site.deployment({"m": {"source": "fake:new.yaml"}, "other": {}}, memory=memory))
        assert await answer(supervisor, after) == "old"
        assert supervisor.counts["load_failures", "m"] == loads


@pytest.mark.parametrize("budget", MEMORY)
async def test_a_new_engine_that_works_replaces_the_old_one(site, budget):
    for name in ("old", "new"):
        site.script(name, text=name)
    memory = {"budget": budget, "queue": {"min_resident": "0s"}}
    before = site.deployment({"m": {"source": "fake:old.yaml"}}, memory=memory)
    after = site.deployment({"m": {"source": "fake:new.yaml"}}, memory=memory)
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        assert await answer(supervisor, before) == "old"
        await supervisor.apply(after)
        assert await answer(supervisor, after) == "new"
        async with asyncio.timeout(60):
            while len(supervisor.status()) > 1:
                await asyncio.sleep(0.005)
        assert not now(supervisor).conditions[-1].holds


async def test_what_was_rolled_back_is_tried_again_when_somebody_says_so(site):
    site.script("old", text="old")
    site.script("new", text="new", crash_load=True, crash_times=2)
    before = site.deployment({"m": {"source": "fake:old.yaml"}})
    after = site.deployment({"m": {"source": "fake:new.yaml"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        await answer(supervisor, before)
        await supervisor.apply(after)
        await rolled_back(supervisor)
        supervisor.forgive()
        assert await answer(supervisor, after) == "new"
        assert not now(supervisor).conditions[-1].holds


async def test_a_model_that_never_worked_has_nothing_to_go_back_to(site):
    site.script("old", text="old")
    site.script("new", fail_load="cut off", permanent=True)
    async with site.supervisor() as supervisor:
        await supervisor.apply(site.deployment({"m": {"source": "fake:old.yaml"}}))
        after = site.deployment({"m": {"source": "fake:new.yaml"}})
        await supervisor.apply(after)
        with pytest.raises(LoadFailed, match="cut off"):
            await answer(supervisor, after)
