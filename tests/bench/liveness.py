"""How long GET /v1/models takes while the engine works: `python -m tests.bench.liveness`."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import aiohttp

from tests.bench import models, report, servers
from tests.bench.client import AskFailed, ask, connections
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, wait_quiet
from tests.bench.prompts import chat, chats
from tests.bench.servers import Server
from tests.bench.stats import markdown, percentile

STREAMS, STREAM_TOKENS = 8, 48
PREFILL_TOKENS = 1200
PAUSE_SECONDS = 0.02
IDLE_PROBES = 100

Probes = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """The latencies of one round in seconds, by what went on beside them."""

    probes: Probes
    other_cores: float


def main() -> None:
    asked = report.options(__doc__).parse_args()
    exit_on_sigterm()
    path = models.directory(asked.model)
    with tempfile.TemporaryDirectory() as directory, servers.appliance(str(path), Path(directory)) as server:
        samples = list[Sample]()
        for number in range(asked.rounds):
            wait_quiet(asked.wait_quiet)
            noise = Noise(lambda: own_cpu_seconds() + cpu_seconds(server.pid))
            samples.append(Sample(asyncio.run(measure(server, f"{number}")), noise.cores()))
            print(f"round {number}, {samples[-1].other_cores:.2f} other cores\n{table(samples[-1:])}", flush=True)
            report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(f"all rounds\n{table(samples)}")


async def measure(server: Server, seed: str) -> Probes:
    """Latencies in seconds: idle, beside streams that decode, beside one prefill."""
    async with connections() as session:
        await ask(session, server, chat(20, "warm-up"), 1)
        count = iter(range(IDLE_PROBES))
        return {
            "idle": await _probe(session, server, lambda: next(count, None) is None),
            f"{STREAMS} streams decode": await _beside_decode(session, server, seed),
            f"{PREFILL_TOKENS}-token prefill": await _beside_prefill(session, server, seed),
        }


async def _beside_decode(session: aiohttp.ClientSession, server: Server, seed: str) -> list[float]:
    """From the moment every stream has its first token until one of them ends."""
    waiting, decoding = iter(range(STREAMS - 1)), asyncio.Event()

    def started() -> None:
        if next(waiting, None) is None:
            decoding.set()

    async with asyncio.TaskGroup() as tasks:
        streams = [
            tasks.create_task(ask(session, server, messages, STREAM_TOKENS, started))
            for messages in chats(STREAMS, 64, f"decode-{seed}")
        ]
        await decoding.wait()
        return await _probe(session, server, lambda: any(stream.done() for stream in streams))


async def _beside_prefill(session: aiohttp.ClientSession, server: Server, seed: str) -> list[float]:
    """Until the one token asked for has come."""
    async with asyncio.TaskGroup() as tasks:
        prefill = tasks.create_task(ask(session, server, chat(PREFILL_TOKENS, f"prefill-{seed}"), 1))
        return await _probe(session, server, prefill.done)


async def _probe(session: aiohttp.ClientSession, server: Server, over: Callable[[], bool]) -> list[float]:
    latencies = list[float]()
    while not over():
        asked = perf_counter()
        async with session.get(f"{server.url}/v1/models") as response:
            if response.status != 200:
                raise AskFailed(f"GET /v1/models answered {response.status}")
            await response.read()
        latencies.append(perf_counter() - asked)
        await asyncio.sleep(PAUSE_SECONDS)
    return latencies


def table(samples: Sequence[Sample]) -> str:
    """Percentiles over the probes of the quiet rounds; of all where none was quiet."""
    used, quiet = report.quiet(samples)
    rows = list[list[object]]()
    for beside in used[0].probes:
        seconds = [latency for sample in used for latency in sample.probes[beside]]
        times = (percentile(seconds, 50), percentile(seconds, 99), max(seconds, default=0.0))
        rows.append([beside, len(seconds), *map(report.milliseconds, times), quiet])
    return markdown(["GET /v1/models beside", "probes", "p50 ms", "p99 ms", "max ms", "quiet"], rows)


if __name__ == "__main__":
    main()
