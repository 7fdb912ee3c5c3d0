"""Prefixes on disk behind the supervisor: a model that was unloaded, or another process later, wakes warm."""

from typing import Any

import pytest

from appliance.control.generation import generate
from appliance.vocab.event import Started
from appliance.vocab.request import Message, Sampling
from appliance.vocab.spec import ChatPrompt, Submission
from tests.process.site import PATIENT, Site

TEXT = "a prompt of many letters, each of which is a token of its own here. "
ASKED = (Message(role="user", content=TEXT),)
DISK = {"own": {"prefix": {"memory": "1GiB", "disk": "1GiB", "path": "./kv"}}}


async def cached(supervisor: Any, deployment: Any, messages: tuple[Message, ...] = ASKED) -> int:
    def compose(lease: Any) -> Submission:
        return Submission(id=0, prompt=ChatPrompt(messages=messages), sampling=Sampling(), context=lease.info.context)

    found = []
    async for _, event in generate(supervisor, deployment.models["m"], compose, deadlines=PATIENT):
        if isinstance(event, Started):
            found.append(event.cached_tokens)
    return found[0]


@pytest.mark.parametrize("token_bytes", [1, 4, 6])
async def test_a_model_wakes_warm_after_an_unload_and_after_a_restart(tmp_path, token_bytes):
    site = Site(tmp_path)
    site.script("m", token_bytes=token_bytes)
    long = (Message(role="user", content=TEXT * 10),)
    deployment = site.deployment({"m": {"cache": "own"}}, cache=DISK)
    found = []
    for _ in range(2):
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)
            found.append(await cached(supervisor, deployment, long))
            supervisor.unload("m")
            found.append(await cached(supervisor, deployment, long))
    assert found[0] == 0
    assert min(found[1:]) >= len(long[0].content.split())


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


async def test_what_a_file_wants_warm_is_computed_at_load_and_found_by_the_first_request(tmp_path):
    site = Site(tmp_path)
    site.script("m", token_bytes=1)
    (tmp_path / "agent.md").write_text(TEXT + "\n")
    deployment = site.deployment({"m": {"warm": ["agent.md"]}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        async with supervisor.acquire(deployment.models["m"]) as lease:
            while not (await lease.handle.ping()).gauges.prefix_bytes:
                pass
        messages = (Message(role="system", content=TEXT), Message(role="user", content="hello"))
        assert await cached(supervisor, deployment, messages) >= len(TEXT)
