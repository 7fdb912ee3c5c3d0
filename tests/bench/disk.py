"""How fast a prefix is back from disk, against computing it: `python -m tests.bench.disk`.

Each round asks an engine for one token behind a prompt it has never seen, unloads the model, loads it again, and asks
for the same prefix with another end, and once more, when memory has it. Times are from the request to its first
token. What is asked with the prefix in memory costs is no part of the prefix: it is taken off both of the others.
"""

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance import log
from appliance.config.deployment import Deployment
from appliance.control.generation import Deadlines, generate
from appliance.control.lease import Lease
from appliance.control.supervisor import Supervisor
from appliance.models.store import Store
from appliance.vocab.event import Finished
from appliance.vocab.request import Sampling, TokenPrompt
from appliance.vocab.spec import Submission
from tests.bench import models, report
from tests.bench.process import Noise, cpu_seconds, wait_quiet
from tests.bench.stats import interval, markdown
from tests.process.site import Site

TOKENS, TAIL = 600, 16
TARGET = 0.10
PATIENT = Deadlines(600, 600, 600)


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds to the first token computed, with the prefix from disk, and from memory; `cached` tokens were not
    computed again.
    """

    cold: float
    disk: float
    memory: float
    cached: int
    other_cores: float

    @property
    def ratio(self) -> float:
        """What bringing the prefix back takes, to computing it."""
        return (self.disk - self.memory) / (self.cold - self.memory)


async def ask(supervisor: Supervisor, deployment: Deployment, tokens: Sequence[int]) -> tuple[float, int]:
    """Seconds to the end of one token, and how many of the prompt's were cached."""

    def compose(lease: Lease) -> Submission:
        prompt = TokenPrompt(tokens=tuple(tokens))
        return Submission(id=0, prompt=prompt, sampling=Sampling(temperature=0, max_tokens=1), context=4096)

    started, cached = time.perf_counter(), 0
    async for _, event in generate(supervisor, deployment.models["m"], compose, deadlines=PATIENT):
        if isinstance(event, Finished):
            cached = event.usage.cached_tokens
    return time.perf_counter() - started, cached


async def measure(directory: Path, model: Path, rounds: int, patience: float) -> list[Sample]:
    site, drawn, samples = Site(directory), random.Random(1), list[Sample]()
    cache = {"own": {"prefix": {"memory": "2GiB", "disk": "8GiB", "path": "./kv"}}}
    deployment = site.deployment({"m": {"source": str(model), "cache": "own"}}, cache=cache)
    async with Supervisor(Store(), environ=os.environ) as supervisor:
        await supervisor.apply(deployment)
        for _ in range(rounds):
            prompt = [drawn.randrange(100, 40_000) for _ in range(TOKENS)]
            await ask(supervisor, deployment, prompt[:TAIL])  # load, and compute something
            await asyncio.to_thread(wait_quiet, patience)
            noise = Noise(lambda: cpu_seconds(os.getpid()))
            cold, _ = await ask(supervisor, deployment, [*prompt[TAIL:], *prompt[:TAIL]])
            supervisor.unload("m")
            await ask(supervisor, deployment, prompt[:TAIL])
            again = [*prompt[TAIL:], *reversed(prompt[:TAIL])]
            disk, cached = await ask(supervisor, deployment, again)
            memory, _ = await ask(supervisor, deployment, [*prompt[TAIL:], *sorted(prompt[:TAIL])])
            samples.append(Sample(cold, disk, memory, cached, noise.cores()))
            supervisor.unload("m")
    return samples


def main() -> None:
    parser = report.options(__doc__)
    asked = parser.parse_args()
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as directory:
        samples = asyncio.run(measure(Path(directory), models.directory(asked.model), asked.rounds, asked.wait_quiet))
    ratios = interval([sample.ratio for sample in samples])
    rows = [
        [
            report.milliseconds(sample.cold),
            report.milliseconds(sample.disk),
            report.milliseconds(sample.memory),
            sample.cached,
            f"{sample.ratio:.3f}",
        ]
        for sample in samples
    ]
    print(markdown(["computed ms", "from disk ms", "from memory ms", "tokens cached", "ratio"], rows))
    print(f"\nratio {ratios}, target {TARGET}: {'kept' if ratios.median <= TARGET else 'MISSED'}")
    report.save(asked, {"samples": json.loads(json.dumps([[s.cold, s.disk, s.memory, s.cached] for s in samples]))})


if __name__ == "__main__":
    main()
