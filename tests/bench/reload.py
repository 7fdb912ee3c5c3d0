"""What a reload of 100 models and 1 000 aliases costs the server: `python -m tests.bench.reload`.

Runs the reloader as `appliance up` does, on its event loop, beside a task that notices when the loop stands still.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import uvloop

from appliance import log
from appliance.cli.reading import read
from appliance.control.beside import prefer_the_loop
from appliance.control.events import Events, Listener
from appliance.control.journal import Journal
from appliance.control.observer import Observer
from appliance.control.reload import Reloader
from appliance.control.running import Running
from appliance.control.supervisor import Supervisor
from appliance.models.store import Store
from tests.bench import report
from tests.bench.process import Noise, own_cpu_seconds, wait_quiet
from tests.bench.stats import markdown

MODELS, ALIASES = 100, 1000
TICK_SECONDS = 0.001
COMMIT_MS, STALL_MS, APPLIED_MS = 5.0, 50.0, 1000.0


def text(number: int, style: str) -> str:
    """A deploy file; each number differs from the one before in every model and every alias."""
    temperature = 0.1 + number % 10 / 20
    models = "".join(
        f"  m{i}:\n    source: fake:m{i}.yaml\n    context: {8 + number % 2}k\n    idle_unload: 20m\n"
        f"    sampling: {{temperature: {temperature}, top_p: 0.9}}\n    policy: {{clamp: {{max_tokens: [1, 4k]}}}}\n"
        for i in range(MODELS)
    )
    alias = {
        "flow": "  a{0}: {{model: m{1}, sampling: {{temperature: {2}}}}}\n",
        "block": "  a{0}:\n    model: m{1}\n    sampling:\n      temperature: {2}\n",
    }[style]
    aliases = "".join(alias.format(i, i % MODELS, temperature) for i in range(ALIASES))
    return f"version: 1\nmodels:\n{models}aliases:\n{aliases}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One reload in milliseconds: its commit, the longest stall of the loop, from saved to applied."""

    commit: float
    stall: float
    applied: float
    other_cores: float


@dataclass(slots=True)
class Stalls:
    """The longest time the loop did not turn, in milliseconds, since it was last asked."""

    worst: float = 0.0
    _last: float = field(default_factory=time.perf_counter)

    async def watch(self) -> None:
        self._last = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.perf_counter()
            self.worst = max(self.worst, (now - self._last - TICK_SECONDS) * 1000)
            self._last = now

    def take(self) -> float:
        worst, self.worst = self.worst, 0.0
        return worst


@contextmanager
def site() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "generations").mkdir()
        for i in range(MODELS):
            (directory / f"m{i}.yaml").write_text(f"text: model {i}\n")
        yield directory


async def measure(directory: Path, rounds: int, style: str, patience: float) -> list[Sample]:
    """One sample for each reload; before each the machine is given `patience` seconds to come to rest."""
    file = directory / "deploy.yaml"
    file.write_text(text(0, style))
    deployment = read(file)
    running, events, stalls = Running(deployment), Events(), Stalls()
    samples = []
    async with Supervisor(Store(), environ=os.environ) as supervisor:
        journal = Journal(directory / "generations")
        reloader = Reloader(str(file), partial(read, file), running, supervisor, journal, events=events)
        Observer(supervisor, lambda: running.generation, events)
        await supervisor.apply(deployment)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(reloader.run()), tasks.create_task(stalls.watch())]
            await reloader.reload()
            with events.listening() as listener:
                for number in range(1, rounds + 1):
                    await asyncio.to_thread(wait_quiet, patience)
                    stalls.take()
                    samples.append(await _one(file, text(number, style), listener, stalls))
            for task in beside:
                task.cancel()
    return samples


async def _one(file: Path, text: str, listener: Listener, stalls: Stalls) -> Sample:
    noise = Noise(own_cpu_seconds)
    saved = time.perf_counter()
    file.write_text(text)
    while (event := await listener.next())["event"] != "config.applied":
        pass
    applied = (time.perf_counter() - saved) * 1000
    # What follows the commit belongs to the reload too.
    await asyncio.sleep(0.2)
    return Sample(event["commit_ms"], stalls.take(), applied, noise.cores())


def rows(style: str, samples: Sequence[Sample]) -> list[list[object]]:
    """Of the reloads no other process disturbed, all where there is none."""
    used, undisturbed = report.quiet(samples)
    limits = (("commit", COMMIT_MS), ("stall", STALL_MS), ("applied", APPLIED_MS))
    found = list[list[object]]()
    for name, limit in limits:
        values = [getattr(sample, name) for sample in used]
        kept = "yes" if max(values) <= limit else "NO"
        found.append([name, style, f"{median(values):.1f}", f"{max(values):.1f}", f"{limit:g}", kept, undisturbed])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--wait-quiet", type=float, default=0, metavar="S", help="wait up to S seconds for quiet")
    asked = parser.parse_args()
    log.configure(level="warning")
    prefer_the_loop()
    lines = list[list[object]]()
    for style in ("flow", "block"):
        with site() as directory, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            lines += rows(style, runner.run(measure(directory, asked.rounds, style, asked.wait_quiet)))
    print(markdown(["ms", "aliases", "median", "worst", "limit", "kept", "quiet"], lines))


if __name__ == "__main__":
    main()
