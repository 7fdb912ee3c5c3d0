"""Streaming throughput beside `mlx_lm.server` and an in-process `BatchGenerator`: `python -m tests.bench.compare`.

All three hold the same weights and stay loaded; one generates at a time. In a round each gets the same chats, new
ones in every round, and the ratio of a round is taken between measurements made one after the other.
"""

import asyncio
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import median

from tests.bench import models, report, servers
from tests.bench.answer import Load
from tests.bench.client import connections
from tests.bench.process import NOISE_CORES, Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, wait_quiet
from tests.bench.prompts import chats
from tests.bench.stats import Interval, interval, markdown, percentile
from tests.bench.targets import Http, Target, in_process

OURS, SERVER, LOOP = "appliance", "mlx_lm.server", "BatchGenerator"
REQUESTS = {"tiny": 32}
FEWEST_REQUESTS = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """One load on one target. Times are seconds, `other_cores` is what everybody else used meanwhile."""

    round: int
    streams: int
    target: str
    tokens_per_second: float
    tokens: int
    first: list[float]
    gaps: list[float]
    texts: list[str]
    other_cores: float

    @property
    def quiet(self) -> bool:
        return self.other_cores <= NOISE_CORES


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--tiny", dest="model", action="store_const", const="tiny", help="the same as --model tiny")
    parser.add_argument("--streams", type=_numbers, default=(1, 4, 8, 16), metavar="1,4,8,16")
    parser.add_argument("--requests", type=int, help="a load, at least its streams (default 4; tiny: 32)")
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=32)
    exit_on_sigterm()
    asyncio.run(_compare(parser.parse_args()))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


async def _compare(asked: Namespace) -> None:
    path, samples = models.directory(asked.model), list[Sample]()
    with ExitStack() as started:
        directory = Path(started.enter_context(tempfile.TemporaryDirectory()))
        ours = started.enter_context(servers.appliance(str(path), directory))
        theirs = started.enter_context(servers.mlx_lm_server(path, directory))
        loop = started.enter_context(in_process(path, directory))
        async with connections() as session:
            targets: list[Target] = [Http(ours, session), Http(theirs, session), loop]
            for target in targets:
                await target.run(_load(asked, "warm-up", max(asked.streams)))
            for number in range(asked.rounds):
                samples += await _round(asked, targets, number)
                report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(throughput(samples), latency(samples), sameness(samples), sep="\n\n")


def _load(asked: Namespace, seed: str, streams: int) -> Load:
    count = max(streams, asked.requests or REQUESTS.get(asked.model, FEWEST_REQUESTS))
    return Load(chats(count, asked.prompt_tokens, seed), streams, asked.max_tokens)


async def _round(asked: Namespace, targets: Sequence[Target], number: int) -> list[Sample]:
    """Each number of streams in turn, its targets one right after the other; who is first changes."""
    samples = list[Sample]()
    for place, streams in enumerate(asked.streams):
        load, first = _load(asked, f"{number}-{streams}", streams), (number + place) % len(targets)
        for target in (*targets[first:], *targets[:first]):
            await asyncio.to_thread(wait_quiet, asked.wait_quiet)  # the loop sees connections that close meanwhile
            samples.append(await _sample(target, load, number))
            print(_line(samples[-1]), flush=True)
    return samples


async def _sample(target: Target, load: Load, number: int) -> Sample:
    noise = Noise(lambda: own_cpu_seconds() + cpu_seconds(target.pid))
    outcome = await target.run(load)
    return Sample(
        round=number,
        streams=load.streams,
        target=target.name,
        tokens_per_second=outcome.tokens_per_second,
        tokens=sum(answer.tokens for answer in outcome.answers),
        first=[answer.first for answer in outcome.answers],
        gaps=[gap for answer in outcome.answers for gap in answer.gaps],
        texts=[answer.text for answer in outcome.answers],
        other_cores=noise.cores(),
    )


def _line(sample: Sample) -> str:
    noisy = "" if sample.quiet else f", NOISY: {sample.other_cores:.2f} other cores"
    speed = f"{sample.tokens_per_second:.1f} tokens/s"
    return f"round {sample.round}, {sample.streams} streams, {sample.target}: {speed}{noisy}"


def ratio(samples: Sequence[Sample], streams: int, other: str) -> tuple[Interval, str]:
    """Ours over the other's speed by round, and how many rounds were quiet: noisy ones count only if all are."""
    at = {(sample.round, sample.target): sample for sample in samples if sample.streams == streams}
    pairs = [(at[number, OURS], at[number, other]) for number in sorted({number for number, _ in at})]
    quiet = [pair for pair in pairs if all(sample.quiet for sample in pair)]
    ratios = [ours.tokens_per_second / theirs.tokens_per_second for ours, theirs in quiet or pairs]
    return interval(ratios), f"{len(quiet)}/{len(pairs)}"


def throughput(samples: Sequence[Sample]) -> str:
    """Medians of tokens/s, first token included, and the paired ratios."""
    rows = list[list[object]]()
    for streams in _streams(samples):
        speeds = [
            median(s.tokens_per_second for s in samples if (s.streams, s.target) == (streams, target))
            for target in (OURS, SERVER, LOOP)
        ]
        compared = chain.from_iterable(ratio(samples, streams, other) for other in (SERVER, LOOP))
        rows.append([streams, *(f"{speed:.1f}" for speed in speeds), *compared])
    head = ["streams", f"{OURS} tok/s", f"{SERVER} tok/s", f"{LOOP} tok/s"]
    return markdown([*head, f"/ {SERVER}", "quiet", f"/ {LOOP}", "quiet"], rows)


def latency(samples: Sequence[Sample]) -> str:
    """Time to the first text and between pieces of text, over all rounds."""
    rows = list[list[object]]()
    for streams in _streams(samples):
        for target in (OURS, SERVER, LOOP):
            mine = [s for s in samples if (s.streams, s.target) == (streams, target)]
            first = [seconds for sample in mine for seconds in sample.first]
            gaps = [seconds for sample in mine for seconds in sample.gaps]
            times = (percentile(first, 50), percentile(gaps, 50), percentile(gaps, 95))
            noise = max(sample.other_cores for sample in mine)
            rows.append([streams, target, *map(report.milliseconds, times), f"{noise:.2f}"])
    return markdown(["streams", "target", "TTFT p50 ms", "ITL p50 ms", "ITL p95 ms", "other cores, most"], rows)


def sameness(samples: Sequence[Sample]) -> str:
    """How many of our answers are the same text as the other's: all did the same work where they are."""
    texts = {(s.round, s.streams, s.target): s.texts for s in samples}
    ours = [(key, n, text) for key, row in texts.items() if key[2] == OURS for n, text in enumerate(row)]
    same = {o: sum(texts[*key[:2], o][n].strip() == text.strip() for key, n, text in ours) for o in (SERVER, LOOP)}
    return ", ".join(f"{count} of {len(ours)} answers as {other}'s" for other, count in same.items())


def _streams(samples: Sequence[Sample]) -> list[int]:
    return sorted({sample.streams for sample in samples})


if __name__ == "__main__":
    main()
