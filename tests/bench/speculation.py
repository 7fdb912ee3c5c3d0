"""What guessing tokens ahead gains and costs: `python -m tests.bench.speculation`.

The same weights decode with and without guesses, one request at a time, in turns: a text to be repeated, and free
text in which little repeats. Times are from the first token to the last, and both must say the same.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance import log
from appliance.config.deployment import Deployment
from appliance.control.generation import Deadlines, generate
from appliance.control.lease import Lease
from appliance.control.supervisor import Supervisor
from appliance.models.store import Store
from appliance.vocab.event import Finished, TextDelta
from appliance.vocab.request import Message, Sampling
from appliance.vocab.spec import ChatPrompt, Submission
from tests.bench import models, report
from tests.bench.process import Noise, cpu_seconds, wait_quiet
from tests.bench.stats import interval, markdown
from tests.process.site import Site

COPIED = (
    "The harbour master kept three ledgers, one for arrivals, one for debts, and one that nobody else was"
    " allowed to read. Every Thursday at noon he walked from the customs house to the old pier with a brass"
    " key in his left hand and counted forty-one steps aloud. Children followed him at a distance and made"
    " bets about what the third ledger held: a map of sunken ships, the names of smugglers, or perhaps"
    " recipes. When the storm of 1953 tore the roof from the customs house, the pages were found drying on"
    " washing lines all over town, and it turned out that he had been writing down the weather, hour by hour,"
    " for twenty-six years."
)
FREE = (
    "Write a short story about a lighthouse keeper who finds a letter.",
    "Explain how a bicycle stays upright.",
    "Describe a market in the morning.",
    "Why do leaves change their colour?",
    "Write a letter to a friend who has moved to another town.",
    "What should one know before keeping bees?",
    "Describe the sea to someone who has never seen it.",
)
TARGETS = {"copy": 1.8, "free": 0.97}
TOKENS = {"copy": 160, "free": 64}
PATIENT = Deadlines(900, 900, 900)


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds from the first token to the last; of the `tokens` so many were `drafted`, and `accepted`."""

    seconds: float
    tokens: int
    drafted: int
    accepted: int
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    task: str
    plain: Answer
    guessing: Answer
    other_cores: float

    @property
    def gain(self) -> float:
        return self.plain.seconds / self.guessing.seconds


async def ask(supervisor: Supervisor, deployment: Deployment, model: str, text: str, tokens: int) -> Answer:
    def compose(lease: Lease) -> Submission:
        prompt = ChatPrompt(messages=(Message(role="user", content=text),))
        return Submission(id=0, prompt=prompt, sampling=Sampling(temperature=0, max_tokens=tokens), context=4096)

    first, said = 0.0, ""
    async for _, event in generate(supervisor, deployment.models[model], compose, deadlines=PATIENT):
        match event:
            case TextDelta(piece):
                first, said = first or time.perf_counter(), said + piece
            case Finished(_, usage):
                seconds = time.perf_counter() - first
                return Answer(seconds, usage.completion_tokens, usage.drafted, usage.accepted, said)
    raise AssertionError("the answer has no end")


async def measure(directory: Path, model: Path, depth: int, rounds: int, patience: float) -> list[Sample]:
    guessing = {"source": str(model), "speculative": {"kind": "lookup", "depth": depth}}
    deployment = Site(directory).deployment({"plain": {"source": str(model)}, "guessing": guessing})
    samples: list[Sample] = []
    async with Supervisor(Store(), environ=os.environ) as supervisor:
        await supervisor.apply(deployment)
        for name in ("plain", "guessing"):
            await ask(supervisor, deployment, name, "Hello", 4)
        for round in range(rounds):
            tasks = {
                "copy": f"Repeat this text word for word, nothing else:\n\n{COPIED}",
                "free": FREE[round % len(FREE)],
            }
            for task, text in tasks.items():
                await asyncio.to_thread(wait_quiet, patience)
                noise = Noise(lambda: cpu_seconds(os.getpid()))
                order = ("plain", "guessing") if round % 2 else ("guessing", "plain")
                got = {name: await ask(supervisor, deployment, name, text, TOKENS[task]) for name in order}
                samples.append(Sample(task, got["plain"], got["guessing"], noise.cores()))
    return samples


def table(samples: Sequence[Sample]) -> str:
    head = ["task", "plain tokens/s", "guessing tokens/s", "gain", "drafted", "accepted", "same text", "other cores"]
    return markdown(
        head,
        [
            [
                sample.task,
                f"{(sample.plain.tokens - 1) / sample.plain.seconds:.1f}",
                f"{(sample.guessing.tokens - 1) / sample.guessing.seconds:.1f}",
                f"{sample.gain:.2f}",
                sample.guessing.drafted,
                sample.guessing.accepted,
                "yes" if sample.plain.text == sample.guessing.text else "NO",
                f"{sample.other_cores:.2f}",
            ]
            for sample in samples
        ],
    )


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--depth", type=int, default=16, help="tokens guessed at a time, at most")
    asked = parser.parse_args()
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as directory:
        model = models.directory(asked.model)
        samples = asyncio.run(measure(Path(directory), model, asked.depth, asked.rounds, asked.wait_quiet))
    print(table(samples))
    for task, target in TARGETS.items():
        gains = interval([sample.gain for sample in samples if sample.task == task])
        print(f"\n{task}: gain {gains}, target {target}: {'kept' if gains.median >= target else 'MISSED'}")
    report.save(asked, {"samples": [asdict(sample) for sample in samples]})


if __name__ == "__main__":
    main()
