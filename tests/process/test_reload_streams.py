"""Reloads under streaming clients, and a server that is killed in the middle of them."""

import asyncio
import json
import os
import random
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from appliance.control.journal import Journal
from appliance.control.state_dir import state_of
from tests.server.up import PATIENCE, Up, chat

SCRIPT = "text: 'deployment {kwargs} says {last} and again {last} and {last}'\nstep_ms: 3\ntoken_bytes: 6\n"
MIB = 2**20


def text(number: int, real: Path | None = None) -> str:
    """Each number has another alias overlay; every fifth another engine for the very model that streams."""
    dtype = ("auto", "float32")[number // 5 % 2]
    more = f"  n{number % 3}: {{source: 'fake:m.yaml', idle_unload: {number + 1}s}}\n"
    model = f"  real: {{source: '{real}', context: 512}}\n" if real else ""
    return (
        "version: 1\nserver: {listen: 127.0.0.1:0, reload: {quiet: 20ms}}\nmodels:\n"
        f"  m: {{source: 'fake:m.yaml', dtype: {dtype}}}\n{more}{model}"
        f"aliases: {{talk: {{model: m, template: {{number: {number}}}}}}}\n"
    )


@dataclass
class Clients:
    """Streams that are read to their end; `told` are the numbers of generation and deployment each one saw."""

    url: str
    told: list[tuple[int, int]] = field(default_factory=list)
    compared: int = 0
    over: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def fakes(self, client: httpx.AsyncClient, name: str) -> None:
        count = 0
        while not self.over:
            count += 1
            said, generation = await self.stream(client, chat("talk", f"{name}-{count}"))
            match = re.fullmatch(rf"deployment (.*) says ({name}-{count}) and again \2 and \2", said)
            assert match, said
            self.told.append((generation, json.loads(match[1])["number"]))
            self.ended.set()

    async def reals(self, client: httpx.AsyncClient, prompt: str) -> None:
        asked = chat("real", prompt, temperature=0, max_tokens=12)
        expected, _ = await self.stream(client, asked)
        while not self.over:
            said, _ = await self.stream(client, asked)
            assert said == expected
            self.compared += 1

    async def stream(self, client: httpx.AsyncClient, asked: dict) -> tuple[str, int]:
        parts = []
        async with client.stream("POST", f"{self.url}/v1/chat/completions", json={**asked, "stream": True}) as answer:
            assert answer.status_code == 200, await answer.aread()
            # A slow load is bridged with comments.
            lines = [line async for line in answer.aiter_lines() if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]"
        for line in lines[:-1]:
            event = json.loads(line.removeprefix("data: "))
            assert "error" not in event, event
            parts += [choice["delta"].get("content") or "" for choice in event["choices"]]
        return "".join(parts), int(answer.headers["x-appliance-generation"])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


async def reload_under_streams(directory: Path, reloads: int, fakes: int, real: Path | None, growth: int) -> None:
    (directory / "m.yaml").write_text(SCRIPT)
    file = directory / "deploy.yaml"
    file.write_text(text(0, real))
    numbers = {1: 0}
    with Up.start(file) as running:
        await asyncio.to_thread(running.wait_for, "ready")
        pid, clients = running.process.pid, Clients(running.url)
        socket = state_of(file, {"APPLIANCE_HOME": str(directory / ".appliance")}).socket
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client,
            httpx.AsyncClient(timeout=PATIENCE, transport=httpx.AsyncHTTPTransport(uds=str(socket))) as admin,
            asyncio.TaskGroup() as tasks,
        ):
            for i in range(fakes):
                tasks.create_task(clients.fakes(client, f"c{i}"))
            for i in range(2 if real else 0):
                tasks.create_task(clients.reals(client, ("The sea is", "Count to three")[i]))
            for number in range(1, reloads + 1):
                if number == reloads // 3 + 1:
                    before = descriptors(pid), resident(pid)
                file.write_text(text(number, real))
                answer = await admin.post("http://a/admin/v1/reload")
                assert answer.status_code == 200, answer.text
                numbers[answer.json()["reload"]["generation"]] = number
                clients.ended.clear()
                await clients.ended.wait()
            clients.over = True
        assert {numbers[generation] == number for generation, number in clients.told} == {True}
        assert len({generation for generation, _ in clients.told}) > reloads // 3
        assert clients.compared >= (4 if real else 0)
        for _ in range(100):
            if running.metric("appliance_generations_running") == 0 and descriptors(pid) <= before[0]:
                break
            await asyncio.sleep(0.1)
        assert descriptors(pid) <= before[0]
        assert resident(pid) - before[1] < growth
        running.signal(signal.SIGTERM)
        assert await asyncio.to_thread(running.exit_code) == 0
    unexpected = ("bug", "Traceback", "generation.failed", "never retrieved")
    assert not [line for line in running.errors if any(words in line for words in unexpected)]


async def test_no_stream_is_dropped_or_altered_by_reloads(tmp_path: Path) -> None:
    await reload_under_streams(tmp_path, reloads=12, fakes=4, real=None, growth=32 * MIB)


@pytest.mark.proof
@pytest.mark.model
async def test_no_stream_is_dropped_or_altered_by_three_hundred_reloads(tmp_path: Path, smollm2: Path) -> None:
    await reload_under_streams(tmp_path, reloads=300, fakes=16, real=smollm2, growth=32 * MIB)


def kill_during_reloads(directory: Path, reloads: int, seed: int) -> None:
    draw = random.Random(seed)
    (directory / "m.yaml").write_text(SCRIPT)
    file = directory / "deploy.yaml"
    state = state_of(file, {"APPLIANCE_HOME": str(directory / ".appliance")})
    journal, number, applied = Journal(state.generations), 0, 0
    while number < reloads:
        number += 1
        file.write_text(text(number))
        with Up.start(file) as running:
            running.wait_for("listening")
            for _ in range(draw.randint(1, 8)):
                number += 1
                file.write_text(text(number))
                running.process.send_signal(signal.SIGHUP)
                # The point of the kill is a moment of time, not an event.
                time.sleep(draw.uniform(0, 0.2))
            running.process.kill()
        said = [int(found[1]) for line in running.errors if (found := re.search(r"generation=(\d+)", line))]
        newest = journal.newest()
        assert newest is not None
        assert newest.number >= max(said, default=applied), "what was applied had been written down"
        applied = newest.number
    file.write_text("broken: [")
    with Up.start(file, "--last-good") as running:
        running.wait_for("ready")
        assert running.metric("appliance_config_generation") == applied
        assert running.post(chat("talk")).status_code == 200
    assert not [path for path in state.generations.iterdir() if path.name.startswith(".")]


def test_a_server_killed_during_reloads_starts_again_from_a_valid_generation(tmp_path: Path) -> None:
    kill_during_reloads(tmp_path, reloads=12, seed=1)


@pytest.mark.proof
def test_a_server_killed_during_a_hundred_reloads_starts_again_from_a_valid_generation(tmp_path: Path) -> None:
    kill_during_reloads(tmp_path, reloads=100, seed=2)
