"""A change of how keys and values are kept: the engine's store is rebuilt, its weights and its process stay."""

import asyncio

import pytest

from appliance.vocab.event import TextDelta
from tests.process.site import answer


def pid_of(supervisor):
    [status] = [status for status in supervisor.status() if not status.retired]
    return status.pid


@pytest.mark.parametrize(
    "before, after",
    [
        pytest.param({}, {"kv": {"bits": 8}}, id="fewer bits"),
        pytest.param({"kv": {"bits": 8}}, {"kv": {"bits": 4, "group": 32}}, id="still fewer"),
        pytest.param({"kv": {"bits": 8}}, {}, id="exact again"),
        pytest.param({}, {"cache": "small"}, id="prefixes in fewer bits"),
    ],
)
async def test_what_runs_ends_with_the_old_store_and_what_comes_begins_with_the_new(site, before, after):
    site.script("m", text="{last} " * 60, step_ms=2)
    caches = {"small": {"prefix": {"memory": "1MiB", "bits": 8}}}
    old, new = (site.deployment({"m": model}, cache=caches) for model in (before, after))
    begun = asyncio.Event()
    async with site.supervisor() as supervisor:
        await supervisor.apply(old)

        def note(event):
            if isinstance(event, TextDelta):
                begun.set()

        running = asyncio.create_task(answer(supervisor, old, text="early", seen=note))
        await begun.wait()
        pid = pid_of(supervisor)
        await supervisor.apply(new)
        late = [answer(supervisor, new, text=text) for text in ("late", "later")]
        assert await asyncio.gather(running, *late) == ["early " * 60, "late " * 60, "later " * 60]
        assert pid_of(supervisor) == pid
        assert supervisor.counts == {("loads", "m"): 1}
