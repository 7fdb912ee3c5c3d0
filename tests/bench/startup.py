"""Start to first 200, and to the first token of a cold model: `python -m tests.bench.startup`.

Beside it a bare process that imports mlx_lm and loads the same directory; which goes first changes each round.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench import models, report, servers
from tests.bench.client import ask, connections
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, wait_quiet
from tests.bench.prompts import chat
from tests.bench.servers import Server
from tests.bench.stats import interval, markdown

PROMPT_TOKENS = 20
BARE = "import sys, mlx_lm; mlx_lm.load(sys.argv[1]); print('loaded', flush=True)"


@dataclass(frozen=True, slots=True)
class Sample:
    """One round, in seconds: `first_token` from asking, `bare` from starting the process to the loaded model."""

    healthy: float
    first_token: float
    bare: float
    other_cores: float

    @property
    def above_bare(self) -> float:
        return self.first_token - self.bare


def main() -> None:
    asked = report.options(__doc__).parse_args()
    exit_on_sigterm()
    path, samples = models.directory(asked.model), list[Sample]()
    _bare(path)  # the files are in the page cache from here on
    for number in range(asked.rounds):
        wait_quiet(asked.wait_quiet)
        samples.append(_round(path, number))
        print(f"round {number}: {samples[-1]}", flush=True)
        report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(table(samples))


def _round(path: Path, number: int) -> Sample:
    noise = Noise(lambda: cpu_seconds(os.getpid()))
    if number % 2:
        bare, (healthy, first_token) = _bare(path), _cold(path)
    else:
        (healthy, first_token), bare = _cold(path), _bare(path)
    return Sample(healthy, first_token, bare, noise.cores())


def _cold(path: Path) -> tuple[float, float]:
    """Seconds to healthy, and to the first text of the first request."""
    with tempfile.TemporaryDirectory() as directory, servers.appliance(str(path), Path(directory)) as server:
        return server.start_seconds, asyncio.run(_first_token(server))


async def _first_token(server: Server) -> float:
    async with connections() as session:
        return (await ask(session, server, chat(PROMPT_TOKENS, "cold"), 2)).first


def _bare(path: Path) -> float:
    begun = time.perf_counter()
    command = [sys.executable, "-c", BARE, str(path)]
    with subprocess.Popen(
        command, env=servers.engine_environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"loaded\n":
            raise servers.StartFailed(f"mlx_lm.load({str(path)!r}) failed in a bare process")
        return time.perf_counter() - begun


def table(samples: Sequence[Sample]) -> str:
    """Medians over the quiet rounds; over all where none was quiet."""
    used, quiet = report.quiet(samples)
    measures = {
        "`appliance up` to the first 200 on /healthz": [sample.healthy for sample in used],
        f"first token of a cold model, {PROMPT_TOKENS}-token prompt": [sample.first_token for sample in used],
        "bare process: import mlx_lm, load": [sample.bare for sample in used],
        "first token above the bare process": [sample.above_bare for sample in used],
    }
    rows = [[name, interval(seconds), quiet] for name, seconds in measures.items()]
    return markdown(["measure", "seconds", "quiet"], rows)


if __name__ == "__main__":
    main()
