"""Prefixes on disk behind the supervisor: a model that was unloaded, or another process later, wakes warm."""

from typing import Any

from appliance.vocab.event import Started
from tests.process.site import Site, answer

TEXT = "a prompt of many letters, each of which is a token of its own here. "
DISK = {"own": {"prefix": {"memory": "1GiB", "disk": "1GiB", "path": "./kv"}}}


async def cached(supervisor: Any, deployment: Any) -> int:
    seen: list[Started] = []
    await answer(
        supervisor,
        deployment,
        text=TEXT,
        seen=lambda event: seen.append(event) if isinstance(event, Started) else None,
    )
    return seen[0].cached_tokens


async def test_a_model_wakes_warm_after_an_unload_and_after_a_restart(tmp_path):
    site = Site(tmp_path)
    site.script("m", token_bytes=1)
    deployment = site.deployment({"m": {"cache": "own"}}, cache=DISK)
    found = []
    for _ in range(2):
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)
            found.append(await cached(supervisor, deployment))
            supervisor.unload("m")
            found.append(await cached(supervisor, deployment))
    assert found[0] == 0
    assert min(found[1:]) >= len(TEXT)


async def test_other_weights_find_nothing(tmp_path):
    site = Site(tmp_path)
    found = []
    for weights in (1 << 20, 1 << 21):
        site.script("m", token_bytes=1, weight_bytes=weights)
        deployment = site.deployment({"m": {"cache": "own"}}, cache=DISK)
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)
            found.append(await cached(supervisor, deployment))
    assert found == [0, 0]
