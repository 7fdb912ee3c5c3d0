"""What loads and cancelled requests leave behind: nothing."""

import asyncio
import gc
import os
import random
import sys
import threading
from contextlib import aclosing
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from appliance.control import memory
from appliance.control.generation import Deadlines, generate
from appliance.control.residency import EngineState
from appliance.control.supervisor import Supervisor
from appliance.vocab.event import TextDelta
from tests.process.site import PATIENT, Site, answer, composing

PROC = pytest.mark.skipif(sys.platform != "linux", reason="counts by /proc")
MANY = 10
TREND = 1.03
"""Memory goes up and down a little; more than this between the first and the last quarter is growth."""


READINGS = 20


async def held() -> tuple[int, int]:
    """File descriptors and threads of this process. What measures memory beside us has a file open for a moment, so
    of the descriptors the fewest of some readings.
    """
    descriptors = []
    for _ in range(READINGS):
        descriptors.append(len(os.listdir("/proc/self/fd")))
        await asyncio.sleep(0.001)
    return min(descriptors), threading.active_count()


async def cold(supervisor: Supervisor) -> None:
    async with asyncio.timeout(60):
        while any(status.state is not EngineState.COLD for status in supervisor.status()):
            await asyncio.sleep(0.005)


async def load_and_unload(site: Site, model: dict[str, Any], cycles: int) -> None:
    deployment = site.deployment({"m": model})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        after = []
        for _ in range(cycles):
            await answer(supervisor, deployment, max_tokens=3, deadlines=Deadlines(600, 600, 600))
            supervisor.unload("m")
            await cold(supervisor)
            gc.collect()
            after.append((*await held(), memory.taken(os.getpid())))
        assert supervisor.counts == {("loads", "m"): cycles, ("unloads", "m"): cycles}
        # The first ones fill pools and caches.
        descriptors, threads, taken = zip(*after[2:], strict=True)
        assert set(descriptors) == {descriptors[0]}
        assert max(threads) <= threads[0] + MANY, "no more than the pool of threads may hold"
        assert max(taken) <= taken[0] * 1.1
        quarter = max(1, len(taken) // 4)
        assert fmean(taken[-quarter:]) <= fmean(taken[:quarter]) * TREND


@PROC
async def test_loads_and_unloads_leave_nothing_behind(site):
    site.script("m")
    await load_and_unload(site, {}, cycles=6)


@PROC
@pytest.mark.proof
@pytest.mark.model
async def test_a_hundred_loads_of_the_real_model_leave_nothing_behind(site, smollm2: Path):
    await load_and_unload(site, {"source": str(smollm2), "context": 512}, cycles=100)


async def cancel_at_random(site: Site, requests: int) -> None:
    site.script("m", text="and on " * 40, step_ms=1, prefill_ms_per_token=0.1, load_ms=20)
    deployment = site.deployment({"m": {"concurrency": 4}})
    draw = random.Random(requests)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        turn = asyncio.Semaphore(16)

        async def left_early(number: int) -> None:
            """Leave after so many pieces of text: none is while it waits, is loaded or prefilled."""
            patience = draw.choice((0, 0, 1, 2, 5, 20))
            events = generate(supervisor, deployment.models["m"], composing(f"n{number}"), deadlines=PATIENT)
            async with aclosing(events):
                while patience:
                    _, event = await anext(events)
                    patience -= isinstance(event, TextDelta)

        async def request(number: int) -> None:
            async with turn:
                task = asyncio.create_task(left_early(number))
                if draw.random() < 0.5:
                    for _ in range(draw.randrange(40)):
                        await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])

        def taken() -> list[int]:
            """What this process and the engine take."""
            gc.collect()
            [status] = supervisor.status()
            found = [memory.taken(pid) for pid in (os.getpid(), status.pid) if pid is not None]
            return [size for size in found if size is not None]

        early = requests // 2
        await asyncio.gather(*(request(number) for number in range(early)))
        before = taken()
        await asyncio.gather(*(request(number) for number in range(early, requests)))
        assert all(last <= first * 1.1 for first, last in zip(before, taken(), strict=True))
        [status] = supervisor.status()
        assert (status.leases, status.waiting) == (0, 0)
        async with supervisor.acquire(deployment.models["m"]) as lease, asyncio.timeout(60):
            while (pong := await lease.handle.ping()).gauges.running or pong.gauges.waiting:
                pass
        assert pong.gauges.kv_bytes == 0
        assert supervisor.counts["deaths", "m"] == 0
        assert await answer(supervisor, deployment) == "and on " * 40


async def test_requests_cancelled_at_random_moments_leave_no_row_and_no_lease(site):
    await cancel_at_random(site, 100)


@pytest.mark.proof
async def test_a_thousand_requests_cancelled_at_random_moments_leave_no_row_and_no_lease(site):
    await cancel_at_random(site, 1000)
