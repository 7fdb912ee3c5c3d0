"""Models that do not fit into memory together."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from appliance.control.lease import Lease
from appliance.control.residency import EngineState
from appliance.control.sizes import Sizes
from tests.process.site import answer

# A fake engine counts 64 MiB; a fifth of the budget is kept for caches.
ONE_FITS = "100MiB"


@dataclass
class Alternating:
    """Clients that ask one model and then the other; `queued` and `loaded` are what each lease waited, in seconds."""

    site: Any
    asks: int
    queue: dict[str, str]
    queued: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)

    async def run(self) -> int:
        """The number of loads."""
        site = self.site
        site.script("a", text="a says {last}", load_ms=20, step_ms=1)
        site.script("b", text="b says {last}", load_ms=20, step_ms=1)
        memory = {"budget": ONE_FITS, "queue": self.queue}
        deployment = site.deployment({"a": {}, "b": {}}, memory=memory)
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)

            async def client(number: int) -> None:
                for ask in range(self.asks):
                    model, text = "ab"[(number + ask) % 2], f"{number}-{ask}"
                    said = await answer(supervisor, deployment, model, text, leased=self.note)
                    assert said == f"{model} says {text}"

            await asyncio.gather(*(client(number) for number in range(8)))
            assert supervisor.counts["deaths", "a"] == supervisor.counts["deaths", "b"] == 0
            return supervisor.counts["loads", "a"] + supervisor.counts["loads", "b"]

    def note(self, lease: Lease) -> None:
        self.queued.append(lease.queue_seconds)
        self.loaded.append(lease.load_seconds)


async def test_clients_of_two_models_that_do_not_fit_together_are_all_answered_in_groups(site):
    load = Alternating(site, 6, {"min_resident": "100ms", "starve_after": "1s"})
    loads = await load.run()
    assert len(load.queued) == 48
    # Each client waits for the other model at each of its turns, and all eight are served by one load.
    assert loads <= 6 + 6


@pytest.mark.proof
async def test_two_models_under_alternating_load_for_long(site):
    load = Alternating(site, 60, {"min_resident": "500ms", "starve_after": "2s"})
    loads = await load.run()
    assert len(load.queued) == 480
    assert loads <= 60 + 60
    # Beside its own load nobody waits longer than the bound and one load, as long as those take on this machine.
    assert max(load.queued) <= 2 + max(load.loaded)


async def test_a_busy_model_makes_way_for_one_that_has_waited_long_enough(site):
    site.script("a", text="a " * 20, step_ms=2)
    site.script("b", text="b")
    memory = {"budget": ONE_FITS, "queue": {"min_resident": "50ms", "starve_after": "200ms"}}
    deployment = site.deployment({"a": {}, "b": {}}, memory=memory)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        over = asyncio.Event()
        busy = asyncio.Event()

        async def keep_busy() -> None:
            while not over.is_set():
                await answer(supervisor, deployment, "a", seen=lambda event: busy.set())

        async def ask_the_other() -> None:
            await busy.wait()
            assert await answer(supervisor, deployment, "b") == "b"
            over.set()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask_the_other())
            # Three clients who never leave a gap: without a bound the other model would wait for ever.
            for _ in range(3):
                tasks.create_task(keep_busy())


async def test_exclusive_models_are_never_in_memory_together_and_max_loaded_bounds_all(site):
    for name in "abc":
        site.script(name, text=name)
    memory = {"exclusive": [["a", "b"]], "max_loaded": 2, "queue": {"min_resident": "0s"}}
    deployment = site.deployment({"a": {}, "b": {}, "c": {}}, memory=memory)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)

        def loaded() -> set[str]:
            return {status.name for status in supervisor.status() if status.pid is not None}

        for name, there in (("a", "a"), ("c", "ac"), ("b", "bc"), ("a", "ac")):
            await answer(supervisor, deployment, name)
            assert loaded() == set(there)


async def test_a_reload_that_makes_models_exclusive_parts_those_in_memory_without_cutting_an_answer(site):
    site.script("a", text="a " * 40, step_ms=2)
    site.script("b", text="b " * 40, step_ms=2)
    together = site.deployment({"a": {}, "b": {}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(together)
        begun = {name: asyncio.Event() for name in "ab"}

        async def ask(name: str) -> str:
            return await answer(supervisor, together, name, seen=lambda event: begun[name].set())

        async with asyncio.TaskGroup() as tasks:
            asked = {name: tasks.create_task(ask(name)) for name in "ab"}
            for event in begun.values():
                await event.wait()
            apart = site.deployment({"a": {}, "b": {}}, memory={"exclusive": [["a", "b"]]})
            await supervisor.apply(apart)
        assert {name: task.result() for name, task in asked.items()} == {"a": "a " * 40, "b": "b " * 40}
        async with asyncio.timeout(30):
            while sum(status.pid is not None for status in supervisor.status()) > 1:
                await asyncio.sleep(0.005)
        [left] = [status for status in supervisor.status() if status.pid is not None]
        assert left.state is EngineState.READY
        assert (supervisor.counts["unloads", "a"], supervisor.counts["unloads", "b"]) in ((0, 1), (1, 0))


@pytest.mark.model
async def test_the_memory_of_a_real_engine_is_measured_and_known_after_a_restart(site, tiny_llama):
    deployment = site.deployment({"m": {"source": str(tiny_llama), "dtype": "float32", "context": 512}})
    path = site.directory / "sizes.json"
    async with site.supervisor(sizes=Sizes(path)) as supervisor:
        await supervisor.apply(deployment)
        [before] = supervisor.status()
        await answer(supervisor, deployment, max_tokens=2)
        [after] = supervisor.status()
        assert before.taken is None
        assert after.taken is not None
        # What is planned is what was measured, and room for the largest step.
        assert after.taken < after.bytes != before.bytes
    async with site.supervisor(sizes=Sizes(path)) as supervisor:
        await supervisor.apply(deployment)
        [restarted] = supervisor.status()
        assert (restarted.taken, restarted.bytes) == (None, after.bytes)
