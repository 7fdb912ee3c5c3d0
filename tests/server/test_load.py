"""More is asked for than there is: equal shares for keys, unchanged latencies for those who are let in."""

import asyncio
import math
import os
import signal
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import httpx
import pytest

from appliance.control.state_dir import state_of
from appliance.control.usage import recorded
from tests.server.up import PATIENCE, Up, chat, deployment

LETTERS = "text: x\nendless: true\ntoken_bytes: 1\nstep_ms: 8\ncontext: 1000000\n"
"""A model whose tokens are letters."""


def secret(name: str) -> str:
    return f"sk-{name}-0123456789abcdef"


def one_model(folder: Path, rows: int, more: str = "") -> Path:
    file = deployment(folder, more=more)
    (folder / "long.yaml").write_text(LETTERS)
    alone = f"fake:./long.yaml', cache: none, concurrency: {rows},"
    file.write_text(file.read_text().replace("fake:./long.yaml',", alone))
    return file


@dataclass(frozen=True)
class Tenant:
    """A key, and what each of its requests is like."""

    name: str
    prompt: str
    max_tokens: int

    async def ask(self, client: httpx.AsyncClient) -> None:
        body = chat("long", self.prompt, max_tokens=self.max_tokens)
        headers = {"authorization": f"Bearer {secret(self.name)}"}
        response = await client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.json()["usage"]["completion_tokens"] == self.max_tokens


ROWS = 4
GATE = Tenant("gate", "a", 900_000)
"""Takes every row until all others wait."""


@pytest.mark.parametrize(
    ("keys", "each"),
    [pytest.param(4, 25, id="4 keys"), pytest.param(16, 40, id="16 keys", marks=pytest.mark.proof)],
)
async def test_keys_at_saturation_get_equal_shares(tmp_path: Path, keys: int, each: int) -> None:
    """Some have long prompts, some long answers. All of their requests, more than twice as many as are answered, wait
    before the first begins: whatever is slow afterwards, no key's queue is ever empty.
    """
    tenants = [Tenant(f"k{n}", "a" * (60 - 50 * n // keys), 5 + 40 * n // keys) for n in range(keys)]
    named = ", ".join(f"{one.name}: {{secret: {secret(one.name)}}}" for one in (GATE, *tenants))
    file = one_model(tmp_path, ROWS, f"memory: {{queue: {{max: 10000}}}}\nsecurity: {{keys: {{{named}}}}}\n")
    environ = {**os.environ, "APPLIANCE_HOME": str(tmp_path / "home")}
    with Up.start(file, env=environ) as up:
        up.wait_for("ready")
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(base_url=up.url, timeout=PATIENCE, limits=limits) as client,
            asyncio.TaskGroup() as group,
        ):
            gates = [group.create_task(GATE.ask(client)) for _ in range(ROWS)]
            # A row is taken, and somebody waits, only once the engine says so.
            await asyncio.to_thread(up.until, 'appliance_model_rows_running{model="long"}', ROWS)
            asking = [group.create_task(one.ask(client)) for one in tenants for _ in range(each * 5 // 2)]
            await asyncio.to_thread(up.until, 'appliance_model_rows_waiting{model="long"}', len(asking))
            for gate in gates:
                gate.cancel()
            for answered in islice(asyncio.as_completed(asking), keys * each):
                await answered
            up.signal(signal.SIGKILL)  # those that leave one after the other would leave rows to those that stay
            for task in asking:
                task.cancel()
        up.exit_code()
    shares: Counter[str] = Counter()
    for record in recorded(state_of(file, environ).usage, 0, math.inf):
        if record.key != GATE.name:
            shares[record.key] += record.used.prompt_tokens + record.used.completion_tokens
    fair = shares.total() / keys
    print(f"shares of {fair:.0f} tokens: {min(shares.values()) / fair:.3f} to {max(shares.values()) / fair:.3f}")
    assert len(shares) == keys
    assert {name: share for name, share in shares.items() if abs(share - fair) > 0.1 * fair} == {}


@dataclass
class Answers:
    """Seconds of those that were let in and of those that were not."""

    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    async def ask(self, client: httpx.AsyncClient) -> bool:
        """Whether it was let in."""
        began = time.perf_counter()
        response = await client.post("/v1/chat/completions", json=chat("long", max_tokens=20))
        took = time.perf_counter() - began
        assert response.status_code in (200, 429), response.text
        if response.status_code == 200:
            assert response.json()["usage"]["completion_tokens"] == 20
            self.accepted.append(took)
        else:
            assert 1 <= int(response.headers["retry-after"]) <= 120
            self.refused.append(took)
        return response.status_code == 200

    async def go_on(self, client: httpx.AsyncClient, times: int) -> None:
        """Ask again after every answer, and as long as the one who leaves has not made room."""
        for _ in range(times):
            while not await self.ask(client):
                pass


@pytest.mark.proof
async def test_overload_is_refused_at_once_and_changes_nothing_for_those_let_in(tmp_path: Path) -> None:
    """Ten times as many requests a second as four rows of 20 steps of 100 ms can answer, beside what exactly fills
    rows and queue.
    """
    file = one_model(tmp_path, 4, "memory: {queue: {max: 8}}\n")
    (tmp_path / "long.yaml").write_text(LETTERS.replace("step_ms: 8", "step_ms: 100"))
    full, over = Answers(), Answers()
    with Up.start(file, env={**os.environ, "APPLIANCE_HOME": str(tmp_path / "home")}) as up:
        up.wait_for("ready")
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        async with httpx.AsyncClient(base_url=up.url, timeout=PATIENCE, limits=limits) as client:
            async with asyncio.TaskGroup() as group:
                for _ in range(12):
                    group.create_task(full.go_on(client, 6))
            usual = full.accepted[12:60]  # rows and queue are full from the first answers to the last
            capacity = 12 / statistics.fmean(usual)
            async with asyncio.TaskGroup() as group:
                begin = time.perf_counter()
                for number in range(500):
                    await asyncio.sleep(max(0.0, begin + number / (10 * capacity) - time.perf_counter()))
                    group.create_task(over.ask(client))
    print(
        f"capacity {capacity:.1f}/s; full: {_told(usual)}; ten times that: {len(over.accepted)} let in:"
        f" {_told(over.accepted)}, {len(over.refused)} refused: {_told(over.refused)}"
    )
    assert len(over.refused) > 400
    assert statistics.median(over.accepted) < 1.25 * statistics.median(usual)
    assert statistics.median(over.refused) < 0.1 * statistics.median(over.accepted)


def _told(seconds: list[float]) -> str:
    quantiles = statistics.quantiles(seconds, n=100)
    return f"median {quantiles[49]:.3f} s, p95 {quantiles[94]:.3f} s"
