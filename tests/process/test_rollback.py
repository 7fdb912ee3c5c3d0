"""An engine that is rebuilt by a reload: what worked is given up only for what works."""

import asyncio
from functools import partial

import pytest

from appliance.errors import LoadFailed
from appliance.vocab.event import Delta
from tests.process.site import answer
from tests.process.test_dialects import TEMPLATE

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


# ---- a new engine whose template and dialects do not agree
RIGHT = {"dtype": "float32", "family": "hermes", "template": {"file": "right.jinja"}, "context": 256}
REBUILT = {**RIGHT, "dtype": "float16"}
CALLS, TEMPLATES = {"family": "qwen3-coder"}, {"template": {"file": "broken.jinja"}}
MUTE = [
    pytest.param(CALLS, "qwen3_coder does not read", {}, id="another family's calls, both fit"),
    pytest.param(CALLS, "qwen3_coder does not read", {"max_loaded": 1}, id="another family's calls, one fits"),
    pytest.param(TEMPLATES, "renders no conversation", {}, id="a template that fails"),
]


@pytest.fixture
def speaking(site, tiny_vocab_llama):
    """Makes a deployment of one real model from its keys."""
    (site.directory / "right.jinja").write_text(TEMPLATE)
    (site.directory / "broken.jinja").write_text("{{ raise_exception('it is broken') }}")

    def deployment(model, **memory):
        return site.deployment({"m": {"source": str(tiny_vocab_llama), **model}}, memory=memory)

    return deployment


@pytest.mark.parametrize("change, why, memory", MUTE)
async def test_a_new_engine_that_reads_less_than_the_old_one_is_replaced_by_it(site, speaking, change, why, memory):
    before, after = speaking(RIGHT, **memory), speaking({**REBUILT, **change}, **memory)
    ask = partial(answer, model="m", text="hi", max_tokens=64, temperature=0.0, ignore_eos=True)
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        text = await ask(supervisor, before)
        begun = asyncio.Event()
        running = asyncio.create_task(ask(supervisor, before, seen=partial(told, begun)))
        await begun.wait()
        await supervisor.apply(after)
        later = await ask(supervisor, after)
        assert await running == text
        await rolled_back(supervisor)
        assert later == text
        assert why in now(supervisor).conditions[-1].message


async def test_a_model_that_never_read_its_calls_is_rebuilt_nevertheless(site, speaking):
    wrong = {"family": "qwen3-coder"}
    async with site.supervisor() as supervisor:
        before = speaking({**RIGHT, **wrong})
        await supervisor.apply(before)
        await answer(supervisor, before, max_tokens=1)
        await degraded(supervisor)
        after = speaking({**REBUILT, **wrong})
        await supervisor.apply(after)
        await answer(supervisor, after, max_tokens=1)
        await degraded(supervisor)
        assert now(supervisor).info.dtype == "float16"


async def degraded(supervisor):
    async with asyncio.timeout(60):
        while now(supervisor).conditions[-1].reason != "DialectMismatch":
            await asyncio.sleep(0.005)


def told(begun, event):
    if isinstance(event, Delta):
        begun.set()
