"""The server's own memory."""

import asyncio
import gc
import tracemalloc

from tests.process.site import answer

KIB = 1024


async def test_requests_and_loads_leave_nothing_behind_in_the_server(site):
    site.script("m", text="one two three four")
    site.script("gone", crash_load=True)
    deployment = site.deployment({"m": {}, "gone": {}})
    without = site.deployment({"gone": {}})
    async with site.supervisor() as supervisor:

        async def cycle():
            await supervisor.apply(deployment)
            for _ in range(50):
                await asyncio.gather(*(answer(supervisor, deployment, text=f"{n}") for n in range(4)))
            await supervisor.apply(without)
            while any(status.retired for status in supervisor.status()):
                await asyncio.sleep(0.005)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            await cycle()
            before = await cycle()
            await cycle()
            after = await cycle()
        finally:
            tracemalloc.stop()
        assert after - before < 64 * KIB
