"""Streaming throughput beside other servers and an in-process `BatchGenerator`: `python -m tests.bench.compare`.

All hold the same weights and stay loaded; one generates at a time. In a round each gets the same chats, new ones in
every round, and the ratio of a round is taken between measurements made one after the other.
"""

import asyncio
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from tests.bench import compared, models, report, servers
from tests.bench.answer import Load
from tests.bench.client import connections
from tests.bench.compared import LOOP, OURS, SERVER, Sample
from tests.bench.peers import PEERS
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, wait_quiet
from tests.bench.targets import Http, Target, in_process
from tests.bench.workloads import WORKLOADS, load

T = TypeVar("T")
REQUESTS = {"tiny": 32}
FEWEST_REQUESTS = 4


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--tiny", dest="model", action="store_const", const="tiny", help="the same as --model tiny")
    parser.add_argument("--streams", type=_numbers, default=(1, 4, 8, 16), metavar="1,4,8,16")
    parser.add_argument("--beside", type=_names, default=(SERVER, LOOP), help=f"of {SERVER},{LOOP},{','.join(PEERS)}")
    parser.add_argument("--workloads", type=_names, default=("plain",), help=f"of {','.join(WORKLOADS)}")
    parser.add_argument("--requests", type=int, help="a load, at least its streams (default 4; tiny: 32)")
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=32)
    exit_on_sigterm()
    asyncio.run(_compare(parser.parse_args()))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


async def _compare(asked: Namespace) -> None:
    samples = list[Sample]()
    with ExitStack() as started:
        directory = Path(started.enter_context(tempfile.TemporaryDirectory()))
        async with connections() as session:
            targets = list[Target]()
            for name in (OURS, *asked.beside):
                context = start(name, models.directory(asked.model), directory)
                target = started.enter_context(context)
                targets.append(Http(target, session) if isinstance(target, servers.Server) else target)
                await targets[-1].run(_load(asked, "plain", "warm-up", max(asked.streams)))
            for number in range(asked.rounds):
                samples += await _round(asked, targets, number)
                report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(compared.throughput(samples), compared.latency(samples), sep="\n\n")
    print(compared.sameness(samples), compared.cost(samples), sep="\n\n")


def start(name: str, path: Path, directory: Path):  # type: ignore[no-untyped-def]
    """A target by its name, as a context. Raises StartFailed, KeyError for a name nobody knows."""
    match name:
        case "appliance":
            return servers.appliance(str(path), directory)
        case "mlx_lm.server":
            return servers.mlx_lm_server(path, directory)
        case "BatchGenerator":
            return in_process(path, directory)
        case _:
            return servers.peer(name, path, directory)


def _load(asked: Namespace, workload: str, seed: str, streams: int) -> Load:
    count = max(streams, asked.requests or REQUESTS.get(asked.model, FEWEST_REQUESTS))
    return load(workload, seed, count, asked.prompt_tokens, streams, asked.max_tokens)


async def _round(asked: Namespace, targets: Sequence[Target], number: int) -> list[Sample]:
    """Each number of streams and workload in turn, targets one right after the other; who is first changes."""
    samples = list[Sample]()
    kinds = ((streams, workload) for streams in asked.streams for workload in asked.workloads)
    for place, (streams, workload) in enumerate(kinds):
        work = _load(asked, workload, f"{number}-{streams}-{workload}", streams)
        for target in turned([t for t in targets if t.name != LOOP or workload == "plain"], number + place):
            await asyncio.to_thread(wait_quiet, asked.wait_quiet)  # the loop sees connections that close meanwhile
            samples.append(await _sample(target, work, number, workload))
            print(_line(samples[-1]), flush=True)
    return samples


def turned(targets: Sequence[T], by: int) -> Iterator[T]:
    """All of them, another one first each time."""
    first = by % len(targets)
    return iter((*targets[first:], *targets[:first]))


async def _sample(target: Target, load: Load, number: int, workload: str) -> Sample:
    noise, before = Noise(lambda: own_cpu_seconds() + cpu_seconds(target.pid)), cpu_seconds(target.pid)
    outcome = await target.run(load)
    return Sample(
        round=number,
        streams=load.streams,
        workload=workload,
        target=target.name,
        tokens_per_second=outcome.tokens_per_second,
        tokens=sum(answer.tokens for answer in outcome.answers),
        cpu_seconds=cpu_seconds(target.pid) - before,
        first=[answer.first for answer in outcome.answers],
        gaps=[gap for answer in outcome.answers for gap in answer.gaps],
        texts=[answer.text for answer in outcome.answers],
        other_cores=noise.cores(),
    )


def _line(sample: Sample) -> str:
    noisy = "" if sample.quiet else f", NOISY: {sample.other_cores:.2f} other cores"
    speed = f"{sample.tokens_per_second:.1f} tokens/s"
    return f"round {sample.round}, {sample.streams} streams, {sample.workload}, {sample.target}: {speed}{noisy}"


if __name__ == "__main__":
    main()
