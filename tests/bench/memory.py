"""Whether memory comes back when a model is unloaded: `python -m tests.bench.memory`.

A fresh appliance each round; the sum of the proportional set sizes of the server and its children.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.bench import models, report, servers
from tests.bench.client import ask, connections
from tests.bench.process import exit_on_sigterm, pss_bytes, tree
from tests.bench.prompts import chat
from tests.bench.servers import Server
from tests.bench.stats import interval, markdown

MOMENTS = ("before the first load", "loaded", "unloaded", "loaded again", "unloaded again")
IDLE_UNLOAD = "1s"
UNLOAD_SECONDS = 60
POLL_SECONDS = 0.1
TOKENS = 8


class NotUnloaded(RuntimeError):
    """The engine process was still there a minute after its last request."""


def main() -> None:
    asked = report.options(__doc__).parse_args()
    exit_on_sigterm()
    path, rounds = models.directory(asked.model), list[list[int]]()
    for number in range(asked.rounds):
        rounds.append(measure(str(path)))
        print(f"round {number}: {' '.join(_mebibytes(size) for size in rounds[-1])} MiB", flush=True)
        report.save(asked, {"moments": MOMENTS, "pss_bytes": rounds})
    print(table(rounds))


def measure(source: str) -> list[int]:
    """Bytes at each of MOMENTS. Raises NotUnloaded."""
    with (
        tempfile.TemporaryDirectory() as directory,
        servers.appliance(source, Path(directory), idle_unload=IDLE_UNLOAD) as server,
    ):
        alone = len(tree(server.pid))
        sizes = [pss_bytes(server.pid)]
        for turn in ("first", "second"):
            asyncio.run(_use(server, turn))
            sizes.append(pss_bytes(server.pid))
            _wait_unloaded(server.pid, alone)
            sizes.append(pss_bytes(server.pid))
        return sizes


async def _use(server: Server, turn: str) -> None:
    async with connections() as session:
        await ask(session, server, chat(64, turn), TOKENS)


def _wait_unloaded(pid: int, alone: int) -> None:
    end = time.monotonic() + UNLOAD_SECONDS
    while len(tree(pid)) > alone:
        if time.monotonic() > end:
            raise NotUnloaded(f"the engine is still there {UNLOAD_SECONDS} s after its last request")
        time.sleep(POLL_SECONDS)


def table(rounds: Sequence[Sequence[int]]) -> str:
    """Medians, and the ratio of the last moment to the first."""
    rows = [
        [moment, f"{_mebibytes(median(sizes))} MiB"]
        for moment, sizes in zip(MOMENTS, zip(*rounds, strict=True), strict=True)
    ]
    ratio = interval([sizes[-1] / sizes[0] for sizes in rounds])
    return markdown(
        ["moment", "PSS of server and children"], [*rows, ["unloaded again / before the first load", ratio]]
    )


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:.0f}"


if __name__ == "__main__":
    main()
