"""Whether anything grows in hours of mixed load: `python -m tests.bench.soak --minutes 15`.

Chat, completions and Anthropic clients, a quarter of whom leave early, on two models. One is left in peace; the other
is killed, rebuilt by reloads, unloaded and loaded all the time. Memory, descriptors and threads are read once
a minute; the slope is the median of those between any two readings, so that a single high one makes no trend.
"""

import asyncio
import json
import os
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic

from appliance.cli.admin_client import AdminClient
from tests.bench import models, report, servers
from tests.bench.mixed import PROTOCOLS, STEADY, TOSSED, Mixed
from tests.bench.process import exit_on_sigterm, pss_bytes, tree
from tests.bench.servers import Server
from tests.bench.stats import markdown

READINGS = 15
WARM_UP = 1 / 15
"""The part of the time before the first reading: pools and caches fill."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Reading:
    """What was taken `seconds` after the start; of processes: the server, the steady model's engine, all together."""

    seconds: float
    server_pss: int
    engine_pss: int
    all_pss: int
    server_descriptors: int
    server_threads: int
    engine_descriptors: int
    engine_threads: int
    processes: int


@dataclass(frozen=True, slots=True)
class Soaked:
    """What was read and done, and what was not answered as it should be."""

    readings: tuple[Reading, ...]
    counts: Counter[str]
    failures: tuple[str, ...]


def main() -> None:
    asked = options().parse_args()
    exit_on_sigterm()
    source = models.directory(asked.model)
    with tempfile.TemporaryDirectory() as name:
        others = [_twin(source, Path(name) / str(number)) for number in range(2)]
        deploy = partial(_deploy, str(source), others)
        soaked = soak(deploy, asked.minutes * 60, asked.clients, asked.tokens, asked.pace)
    report.save(asked, {"readings": [asdict(r) for r in soaked.readings], "counts": soaked.counts,
                        "failures": soaked.failures})  # fmt: skip
    print(table(soaked))
    sys.exit(1 if soaked.failures else 0)


def _twin(source: Path, directory: Path) -> str:
    """The same weights as another model, whose engine is not shared: its configuration is another file."""
    directory.mkdir()
    for file in source.iterdir():
        (directory / file.name).symlink_to(file)
    (directory / "config.json").unlink()
    (directory / "config.json").write_bytes((source / "config.json").read_bytes())
    return str(directory)


def _deploy(source: str, others: Sequence[str], number: int) -> dict[str, object]:
    """As of the nth reload: another default each time, and another engine for one of them. The prefix cache is small,
    so that it is full when the first reading is taken.
    """
    common = {"dtype": "float32", "concurrency": 8, "context": "2k", "idle_unload": "never", "cache": "small"}
    models = {
        STEADY: {**common, "source": source, "sampling": {"top_p": 0.9 if number % 2 else 0.95}},
        TOSSED: {**common, "source": others[number % len(others)]},
    }
    return {"models": models, "cache": {"small": {"prefix": {"memory": "1MiB"}}}, "engine": {"spare": True}}


def options() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--model", default="tiny", help="float32, converted, tiny, or a model directory")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--pace", type=float, default=10, metavar="S", help="between two disturbances of a kind")
    parser.add_argument("--out", type=Path, help="a JSON file for every reading")
    return parser


def soak(
    deploy: Callable[[int], dict[str, object]], seconds: float, clients: int, max_tokens: int, pace: float
) -> Soaked:
    """Run it; `deploy` gives what is in the file of the nth reload, beside the server."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environ = {**os.environ, "APPLIANCE_HOME": str(directory / "home")}
        port = servers.free_port()

        def file(number: int) -> str:
            return json.dumps({"version": 1, "server": {"listen": f"127.0.0.1:{port}"}, **deploy(number)})

        with servers.serving(file(0), port, directory, environ) as server:
            admin = AdminClient(directory / "deploy.yaml", environ)
            mixed = Mixed(
                server.url, directory / "deploy.yaml", admin, file, clients, max_tokens, pace, Random("soak")
            )
            readings = asyncio.run(_soak(mixed, server, seconds))
            return Soaked(tuple(readings), mixed.counts, tuple(mixed.failures))


async def _soak(mixed: Mixed, server: Server, seconds: float) -> list[Reading]:
    for model in (STEADY, TOSSED):
        await asyncio.to_thread(mixed.admin.post, f"/models/{model}/load")
    readings, began = list[Reading](), monotonic()
    async with asyncio.TaskGroup() as tasks:
        load = tasks.create_task(mixed.run(seconds))
        wait = seconds * WARM_UP
        while not load.done():
            done, _ = await asyncio.wait([load], timeout=wait)
            if not done:
                readings.append(await asyncio.to_thread(read, server.pid, mixed.admin, monotonic() - began))
                print(_line(readings[-1], mixed), flush=True)
            wait = seconds * (1 - WARM_UP) / (READINGS - 1) - 0.01
    return readings


def read(pid: int, admin: AdminClient, seconds: float) -> Reading:
    """Look at the processes now."""
    status = admin.get("/status")
    engine = next(model["pid"] for model in status["models"] if model["name"] == STEADY and not model["retired"])
    members = tree(pid)
    return Reading(
        seconds, _own_pss(pid), _own_pss(engine), pss_bytes(pid), _descriptors(pid), _threads(pid),
        _descriptors(engine), _threads(engine), len(members),
    )  # fmt: skip


def slope(readings: Sequence[Reading], field: str) -> float:
    """How much one of the figures grows in an hour: the median over all pairs of readings (Theil and Sen)."""
    points = [(reading.seconds, getattr(reading, field)) for reading in readings]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2)]
    return 3600 * median(slopes) if slopes else 0.0


def table(soaked: Soaked) -> str:
    """First and last readings with their slopes, then what was done."""
    first, last = soaked.readings[0], soaked.readings[-1]
    rows = [
        [title, _show(getattr(first, field), unit), _show(getattr(last, field), unit),
         _show(slope(soaked.readings, field), unit)]
        for field, title, unit in FIELDS
    ]  # fmt: skip
    done = ", ".join(f"{what} {count}" for what, count in sorted(soaked.counts.items()))
    failed = "".join(f"\nFAILED {failure}" for failure in soaked.failures[:20])
    return f"{markdown(['', 'first', 'last', 'per hour'], rows)}\n\n{done}, failures {len(soaked.failures)}{failed}"


FIELDS = (
    ("server_pss", "PSS of the server, MiB", MIB),
    ("engine_pss", "PSS of the steady engine, MiB", MIB),
    ("all_pss", "PSS of all processes, MiB", MIB),
    ("server_descriptors", "descriptors of the server", 1),
    ("server_threads", "threads of the server", 1),
    ("engine_descriptors", "descriptors of the steady engine", 1),
    ("engine_threads", "threads of the steady engine", 1),
)


def _show(value: float, unit: int) -> str:
    return f"{value / unit:.1f}" if unit > 1 else f"{value:g}"


def _line(reading: Reading, mixed: Mixed) -> str:
    answers = sum(mixed.counts[name] for name in PROTOCOLS)
    return (
        f"{reading.seconds:6.0f} s  server {reading.server_pss / MIB:.1f} MiB {reading.server_descriptors} fd"
        f" {reading.server_threads} threads, steady engine {reading.engine_pss / MIB:.1f} MiB,"
        f" all {reading.all_pss / MIB:.1f} MiB, {answers} answers, {mixed.counts['kills']} kills,"
        f" {len(mixed.failures)} failures"
    )


def _own_pss(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


if __name__ == "__main__":
    main()
