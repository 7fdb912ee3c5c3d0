"""Time to the first token of a prompt that is known already: `python -m tests.bench.reuse`.

Each round has a new 600-token system prompt: asked for the first time, asked the same again, and another question
behind it. A ratio is taken to the same round's and target's first time.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import aiohttp

from tests.bench import client, models, report
from tests.bench.compare import start
from tests.bench.compared import OURS, SERVER
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, wait_quiet
from tests.bench.prompts import Chat, words
from tests.bench.servers import Server
from tests.bench.stats import interval, markdown

TOKENS = 600


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds to the first token."""

    target: str
    cold: float
    again: float
    other: float
    other_cores: float


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--beside", type=lambda text: text.split(","), default=[SERVER])
    asked = parser.parse_args()
    exit_on_sigterm()
    samples = list[Sample]()
    with ExitStack() as started:
        directory, path = Path(started.enter_context(tempfile.TemporaryDirectory())), models.directory(asked.model)
        targets = [started.enter_context(start(name, path, directory)) for name in (OURS, *asked.beside)]
        for number in range(-1, asked.rounds):  # the first is not counted: models are loaded in it
            for target in targets:
                wait_quiet(asked.wait_quiet)
                sample = asyncio.run(measure(target, f"{number}"))
                samples += [sample] if number >= 0 else []
                print(sample, flush=True)
            report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(table(samples))


async def measure(server: Server, seed: str) -> Sample:
    """One round on one target."""
    noise = Noise(lambda: own_cpu_seconds() + cpu_seconds(server.pid))
    async with client.connections() as session:
        cold = await _first(session, server, _chat(seed, "one"))
        again = await _first(session, server, _chat(seed, "one"))
        other = await _first(session, server, _chat(seed, "two"))
    return Sample(server.name, cold, again, other, noise.cores())


async def _first(session: aiohttp.ClientSession, server: Server, chat: Chat) -> float:
    return (await client.ask(session, server, chat, 2)).first


def _chat(seed: str, question: str) -> Chat:
    system = words(TOKENS, f"reuse-{seed}")
    return [{"role": "system", "content": system}, {"role": "user", "content": words(12, f"{seed}-{question}")}]


def table(samples: Sequence[Sample]) -> str:
    """Medians in milliseconds, and the ratios."""
    rows = list[list[object]]()
    for target in dict.fromkeys(sample.target for sample in samples):
        mine = [sample for sample in samples if sample.target == target]
        times = [median(getattr(s, name) for s in mine) for name in ("cold", "again", "other")]
        ratios = interval([s.again / s.cold for s in mine]), interval([s.other / s.cold for s in mine])
        noise = f"{max(s.other_cores for s in mine):.2f}"
        rows.append([target, *map(report.milliseconds, times), *ratios, noise])
    head = ["target", "cold ms", "again ms", "other ms", "again / cold", "other / cold", "other cores, most"]
    return markdown(head, rows)


if __name__ == "__main__":
    main()
