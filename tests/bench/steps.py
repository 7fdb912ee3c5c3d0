"""What a decode step costs outside the model: `python -m tests.bench.steps`.

The step loop runs in this process on sixteen rows, without a server. In turn with it the bare model takes steps of as
many rows behind as many tokens, greedily and one step ahead, which is the least there is to do. The cost of a step
early and late in long answers tells what grows with their length.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx_lm.models.cache import BatchKVCache

from appliance.engine.inbox import Arrival
from appliance.engine.loop import Loop
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.scheduler import Scheduler
from appliance.engine.sequence import Sequence
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSettings, EngineSpec
from tests.bench import models, report
from tests.bench.process import Noise, own_cpu_seconds, wait_quiet
from tests.bench.servers import engine_environ
from tests.bench.stats import interval, markdown

ROWS, PROMPT, TOKENS, EDGE = 16, 32, 480, 60
"""EDGE steps at the beginning and at the end of answers of TOKENS tokens are compared."""
SETTINGS = EngineSettings(context=2048, concurrency=ROWS, kv_bytes=1 << 32, prefix_bytes=0, stall_target=0.5)
_AGAIN = "APPLIANCE_BENCH_ENVIRON"


@dataclass(frozen=True, slots=True)
class Sample:
    """Milliseconds of a step: the loop's and the bare model's, early and late."""

    early: float
    late: float
    bare_early: float
    bare_late: float
    other_cores: float


def main() -> None:
    parser = report.options(__doc__)
    parser.set_defaults(model="tiny")
    asked = parser.parse_args()
    if _AGAIN not in os.environ:  # a BLAS is preloaded, so before Python starts
        command = [sys.executable, "-m", "tests.bench.steps", *sys.argv[1:]]
        os.execve(sys.executable, command, engine_environ() | {_AGAIN: "1"})
    backend, path = MlxBackend(), models.directory(asked.model)
    info, tokenizer = backend.load(EngineSpec(backend="mlx", path=str(path)), SETTINGS, lambda *progress: None)
    samples = list[Sample]()
    for number in range(asked.rounds):
        wait_quiet(asked.wait_quiet)
        noise = Noise(own_cpu_seconds)
        steps = _loop(backend, tokenizer, info.kv_bytes_per_token, number)
        bare = list(_bare(path))
        samples.append(Sample(*_edges(steps), *_edges(bare), noise.cores()))
        print(samples[-1], flush=True)
        report.save(asked, {"samples": [asdict(sample) for sample in samples]})
    print(table(samples))


def _edges(steps: list[float]) -> tuple[float, float]:
    return median(steps[EDGE // 2 : EDGE + EDGE // 2]) * 1000, median(steps[-EDGE - 3 : -3]) * 1000


def _loop(backend: MlxBackend, tokenizer: Any, token_bytes: int, number: int) -> list[float]:
    """Seconds of each turn in which all rows decode."""
    scheduler = Scheduler(SETTINGS, token_bytes, PrefixCache(0))
    loop, steps = Loop(backend, scheduler, lambda events: None), list[float]()
    loop.turn([Arrival(_sequence(tokenizer, number * ROWS + row)) for row in range(ROWS)])
    while not loop.idle:
        before = time.perf_counter()
        loop.turn([])
        if scheduler.running == ROWS:
            steps.append(time.perf_counter() - before)
    return steps[-TOKENS:]


def _sequence(tokenizer: Any, id: int) -> Sequence:
    known = [100 + (id * 31 + place * 7) % 40_000 for place in range(PROMPT)]
    pipeline = Pipeline(tokenizer, Limits(frozenset(), TOKENS), prompt_tokens=PROMPT)
    pipeline.begin()
    return Sequence(id, known, PROMPT, PROMPT + TOKENS, Sampling(temperature=0), pipeline, order=id)


def _bare(path: Path) -> Iterator[float]:
    """Seconds of each step of the model alone."""
    model = _model(path)
    caches = [BatchKVCache([0] * ROWS) for _ in model.layers]
    prompt = mx.array([[100 + row * 31 + place for place in range(PROMPT)] for row in range(ROWS)])
    tokens = mx.argmax(model(prompt, cache=caches)[:, -1], axis=-1)
    mx.eval(tokens)
    for _ in range(TOKENS):
        before = time.perf_counter()
        tokens = mx.argmax(model(tokens[:, None], cache=caches)[:, -1], axis=-1)
        tokens.tolist()
        yield time.perf_counter() - before


@cache
def _model(path: Path) -> Any:
    """One for all rounds, with the same activations as ours: they are in place by now."""
    return mlx_lm.load(str(path))[0]


def table(samples: list[Sample]) -> str:
    """Medians of milliseconds, and what a step costs beside the model."""
    rows = [
        ["early", *_row([(s.early, s.bare_early) for s in samples])],
        ["late", *_row([(s.late, s.bare_late) for s in samples])],
    ]
    noise = max(sample.other_cores for sample in samples)
    head = ["steps of 16 rows", "loop ms", "model ms", "beside the model ms"]
    return f"{markdown(head, rows)}\n\nother cores, most: {noise:.2f}"


def _row(pairs: list[tuple[float, float]]) -> list[object]:
    ours, bare = median(mine for mine, _ in pairs), median(alone for _, alone in pairs)
    return [f"{ours:.1f}", f"{bare:.1f}", interval([mine - alone for mine, alone in pairs])]


if __name__ == "__main__":
    main()
