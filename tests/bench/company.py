"""What requests do to each other and leave behind: `python -m tests.bench.company`.

A 3 000-token prompt arrives beside four streams: the longest wait between two pieces of theirs. A client leaves: the
seconds until the engine rests. Sixty short requests: memory (PSS) after them to that after the first.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import aiohttp

from tests.bench import client, models, report, servers
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, pss_bytes, wait_quiet
from tests.bench.prompts import chat, chats
from tests.bench.servers import Server
from tests.bench.stats import interval, markdown

STREAMS, STREAM_TOKENS, ARRIVING_TOKENS = 4, 96, 3000
SHORT_REQUESTS = 60
POLL_SECONDS, RESTING_CORES, PATIENCE_SECONDS = 0.05, 0.3, 20.0
STALL_SECONDS = 0.5
"""`engine.stall_target` where the deploy file says nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds, and the ratio of memory."""

    longest_gap: float
    left_stream: float
    left_whole: float
    growth: float
    other_cores: float


def main() -> None:
    asked = report.options(__doc__).parse_args()
    exit_on_sigterm()
    path, samples = models.directory(asked.model), list[Sample]()
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as directory, servers.appliance(str(path), Path(directory)) as server:
            wait_quiet(asked.wait_quiet)
            samples.append(asyncio.run(measure(server, f"{number}")))
            print(samples[-1], flush=True)
            report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(table(samples))


async def measure(server: Server, seed: str) -> Sample:
    """One round on a fresh appliance."""
    noise = Noise(lambda: own_cpu_seconds() + cpu_seconds(server.pid))
    async with client.connections() as session:
        growth = await _growth(session, server, seed)
        gap = await _gap(session, server, seed)
        left = [await _left(session, server, f"{seed}-{stream}", stream) for stream in (True, False)]
    return Sample(gap, *left, growth, noise.cores())


async def _growth(session: aiohttp.ClientSession, server: Server, seed: str) -> float:
    await client.ask(session, server, chat(20, f"first-{seed}"), 4)
    before = pss_bytes(server.pid)
    for messages in chats(SHORT_REQUESTS, 20, f"short-{seed}"):
        await client.ask(session, server, messages, 4)
    return pss_bytes(server.pid) / before


async def _gap(session: aiohttp.ClientSession, server: Server, seed: str) -> float:
    """The longest of the gaps between pieces of text that are open after the prompt arrived."""
    speaking, waiting = asyncio.Event(), iter(range(STREAMS - 1))

    def started() -> None:
        if next(waiting, None) is None:
            speaking.set()

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        streams = [
            tasks.create_task(client.ask(session, server, messages, STREAM_TOKENS, started))
            for messages in chats(STREAMS, 32, f"gap-{seed}")
        ]
        await speaking.wait()
        arrived = time.perf_counter() - begun
        tasks.create_task(client.ask(session, server, chat(ARRIVING_TOKENS, f"long-{seed}"), 1))
    ends = [(at, gap) for s in streams for at, gap in zip(s.result().arrivals[1:], s.result().gaps, strict=True)]
    return max(gap for at, gap in ends if at > arrived)


async def _left(session: aiohttp.ClientSession, server: Server, seed: str, stream: bool) -> float:
    """Seconds from leaving to the first of two readings between which the appliance rests."""
    body = {"model": server.model, "messages": chat(32, f"left-{seed}"), "max_tokens": 1000, "stream": stream}
    asking = asyncio.create_task(_read(session, server, body))
    await asyncio.sleep(2.0)  # it computes by now: what is measured begins when the client leaves
    asking.cancel()
    await asyncio.wait([asking])
    left, spent = time.perf_counter(), cpu_seconds(server.pid)
    while time.perf_counter() - left < PATIENCE_SECONDS:
        since = time.perf_counter()
        await asyncio.sleep(POLL_SECONDS)
        before, spent = spent, cpu_seconds(server.pid)
        if (spent - before) / (time.perf_counter() - since) < RESTING_CORES:
            return since - left
    return PATIENCE_SECONDS


async def _read(session: aiohttp.ClientSession, server: Server, body: dict[str, object]) -> None:
    async with session.post(f"{server.url}/v1/chat/completions", json=body) as response:
        async for _ in response.content:
            pass


def table(samples: Sequence[Sample]) -> str:
    """Medians beside what is asked for."""
    asked = {"longest_gap": 2 * STALL_SECONDS, "left_stream": 0.5, "left_whole": 0.5, "growth": 1.5}
    rows = [
        [
            name,
            limit,
            f"{median(getattr(s, name) for s in samples):.2f}",
            interval([getattr(s, name) for s in samples]),
        ]
        for name, limit in asked.items()
    ]
    noise = max(sample.other_cores for sample in samples)
    return f"{markdown(['what', 'at most', 'median', 'interval'], rows)}\n\nother cores, most: {noise:.2f}"


if __name__ == "__main__":
    main()
