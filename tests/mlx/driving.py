"""Drives an MlxBackend by hand, as the step loop would: one launch ahead, tokens read one step late."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from appliance.engine.adapter import Adapter
from appliance.engine.backend import Batch, Chunk, Opening, Sampled, Snapshot
from appliance.engine.constraint import Constraint
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.kv import KVSnapshot
from appliance.engine.rules import NO_RULES, Rules
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSettings, EngineSpec

SETTINGS = EngineSettings(context=512, concurrency=16, kv_bytes=1 << 30, prefix_bytes=1 << 30, stall_target=0.5)


def backend(directory: Path, dtype: str = "auto") -> MlxBackend:
    built = MlxBackend()
    built.load(EngineSpec(backend="mlx", path=str(directory), dtype=dtype), SETTINGS, lambda phase, fraction: None)  # type: ignore[arg-type]
    return built


def arrays(snapshot: KVSnapshot) -> list[mx.array]:
    found = tree_flatten([cache.state for cache in snapshot.caches])
    return [value for _, value in found if isinstance(value, mx.array)]


@dataclass
class Job:
    """A sequence to run: it joins at step `at`."""

    id: int
    prompt: list[int]
    sampling: Sampling
    tokens: int = 8
    at: int = 0
    chunk: int = 512
    snapshot: Snapshot | None = None
    computed: int = 0
    emitted: list[int] = field(default_factory=list)
    stop_ids: frozenset[int] = frozenset()
    constraint: Constraint | None = None
    rules: Rules = NO_RULES
    got: list[Sampled] = field(default_factory=list)

    @property
    def text(self) -> list[int]:
        return [sampled.token for sampled in self.got]


def run(engine: MlxBackend, jobs: Sequence[Job], group: Callable[[int, int], int] = lambda id, step: 0) -> None:
    """Fill every job's `got`. `group` says with which others a row decodes in a step."""
    left = {job.id: job for job in jobs}
    decoding: list[int] = []
    filling: dict[int, int] = {}
    flying, step = None, 0
    while left:
        for job in jobs:
            if job.at == step:
                engine.open(_opening(job))
                filling[job.id] = job.computed
        chunks = tuple(_chunk(left[id], start) for id, start in filling.items())
        batch = Batch(tuple(decoding), chunks, groups=tuple(group(id, step) for id in decoding))
        launched = engine.launch(batch) if batch else None
        if flying is not None:
            for id, sampled in flying.wait().sampled.items():
                if id in left:
                    left[id].got.append(sampled)
        for chunk in chunks:
            filling[chunk.sequence] = chunk.start + len(chunk.tokens)
            if chunk.last:
                del filling[chunk.sequence]
                decoding.append(chunk.sequence)
        for id in [id for id, job in left.items() if len(job.got) >= job.tokens]:
            decoding.remove(id)
            engine.close(id)
            del left[id]
        if launched is not None:
            launched.begin()
        flying, step = launched, step + 1


def _opening(job: Job) -> Opening:
    known = [*job.prompt, *job.emitted]
    return Opening(
        job.id,
        known,
        job.computed,
        job.snapshot,
        job.sampling,
        len(job.prompt),
        job.stop_ids,
        job.constraint,
        job.rules,
    )


def _chunk(job: Job, start: int) -> Chunk:
    known = [*job.prompt, *job.emitted]
    end = min(start + job.chunk, len(known) - 1)
    return Chunk(job.id, start, known[start:end], last=end == len(known) - 1)


def begin(engine: MlxBackend, id: int, prompt: list[int], adapter: Adapter | None = None) -> None:
    """Have the prompt of one more sequence computed, which says what is likeliest."""
    engine.open(Opening(id, prompt, 0, None, Sampling(temperature=0.0), len(prompt), adapter=adapter))
    step = engine.launch(Batch((), (Chunk(id, 0, prompt[:-1], True),)))
    step.begin()
    step.wait()


def say(engine: MlxBackend, ids: Sequence[int], count: int) -> list[list[int]]:
    """So many tokens more for each of these."""
    said: list[list[int]] = [[] for _ in ids]
    for _ in range(count):
        step = engine.launch(Batch(tuple(ids), ()))
        step.begin()
        sampled = step.wait().sampled
        for id, tokens in zip(ids, said, strict=True):
            tokens.append(sampled[id].token)
    return said
