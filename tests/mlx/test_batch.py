"""Batched output is solo output: whoever joins or leaves, a row's tokens depend on its own prompt and seed alone."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from appliance.engine.backend import Batch, Chunk, Opening, Snapshot
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.kv import KVSnapshot
from appliance.engine.rules import NO_RULES, Dry, Rules
from appliance.vocab.request import Sampling
from tests.mlx.driving import Job, arrays, backend, run
from tests.mlx.families import FAMILIES, VOCABULARY, make

SAMPLINGS = [
    Sampling(temperature=0),
    Sampling(temperature=1, seed=3),
    Sampling(temperature=0.7, top_k=20, top_p=0.9, seed=4),
    Sampling(temperature=1.2, top_p=0.6, seed=5),
    Sampling(temperature=0, frequency_penalty=0.5, presence_penalty=0.2),
    Sampling(temperature=0, repetition_penalty=1.3, min_tokens=3),
    Sampling(temperature=1, min_p=0.3, seed=9, logit_bias={7: 5.0}),
    Sampling(temperature=0.9, seed=11, logprobs=3),
]


def prompts(count: int, seed: int = 1) -> list[list[int]]:
    drawn = random.Random(seed)
    return [[drawn.randrange(3, VOCABULARY) for _ in range(drawn.randint(1, 40))] for _ in range(count)]


def jobs(stagger: int = 2) -> list[Job]:
    pairs = zip(prompts(len(SAMPLINGS)), SAMPLINGS, strict=True)
    return [
        Job(id, prompt, sampling, at=id * stagger, tokens=6 + id % 4, chunk=16, stop_ids=frozenset({0, 2}))
        for id, (prompt, sampling) in enumerate(pairs)
    ]


@pytest.fixture(scope="module", params=FAMILIES, ids=list(FAMILIES))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("family"), FAMILIES[request.param])


@pytest.mark.parametrize("stagger", [0, 1, 3], ids=["all at once", "one a step", "joining mid-decode"])
def test_rows_that_share_a_batch_give_the_tokens_they_give_alone(checkpoint: Path, stagger: int) -> None:
    engine = backend(checkpoint)
    together = jobs(stagger)
    run(engine, together)
    for job in together:
        alone = replace(job, at=0, got=[])
        run(engine, [alone])
        assert job.text == alone.text, job.sampling


def mixed() -> list[Job]:
    """Short rows beside long ones, which join and leave in between; every sampler counts what a row has said."""
    drawn = random.Random(5)
    dry = Rules(dry=Dry(multiplier=2.0, base=1.75, length=1, breakers=frozenset(), window=None))
    kinds = [*((sampling, NO_RULES) for sampling in SAMPLINGS), (Sampling(temperature=0), dry)]
    return [
        Job(
            id,
            [drawn.randrange(3, VOCABULARY) for _ in range(600 if id % 3 == 1 else 20)],
            sampling,
            at=4 * (id % 4),
            tokens=8 + 5 * (id % 3),
            rules=rules,
        )
        for id, (sampling, rules) in enumerate(kinds)
    ]


GROUPINGS = {
    "by length": lambda id, step: int(id % 3 == 1),
    "one row changing every step": lambda id, step: step % 2 if id == 4 else int(id % 3 == 1),
    "all apart, all together, by turns": lambda id, step: id if step // 3 % 2 else 0,
}


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_rows_in_groups_give_the_tokens_they_give_alone_whenever_they_change_them(
    checkpoint: Path, grouping: str
) -> None:
    engine = backend(checkpoint)
    together = mixed()
    run(engine, together, GROUPINGS[grouping])
    assert engine.held_bytes() == 0
    for job in together:
        alone = replace(job, at=0, got=[])
        run(engine, [alone])
        assert job.text == alone.text, (job.sampling, job.rules)


def test_a_row_continues_from_its_emitted_tokens_as_if_never_interrupted(checkpoint: Path) -> None:
    engine = backend(checkpoint)
    for job in jobs():
        whole = replace(job, at=0, tokens=9, got=[])
        run(engine, [whole])
        rest = replace(job, at=0, tokens=5, emitted=whole.text[:4], got=[])
        run(engine, [rest])
        assert whole.text == whole.text[:4] + rest.text, job.sampling


def prefill(engine: MlxBackend, id: int, tokens: list[int], *lengths: int) -> list[Snapshot | None]:
    """Compute a prompt's tokens and take snapshots of these lengths with it."""
    engine.open(Opening(id, [*tokens, 5], 0, None, Sampling(temperature=0), len(tokens) + 1))
    step = engine.launch(Batch((), (Chunk(id, 0, tokens, last=True),)))
    taken = [engine.snapshot(id, length) for length in lengths]
    step.begin()
    step.wait()
    return taken


def test_a_prompt_computed_from_a_snapshot_gives_the_same_tokens(checkpoint: Path) -> None:
    engine = backend(checkpoint)
    prompt = prompts(1, seed=7)[0] * 3
    cold = Job(1, prompt, Sampling(temperature=0))
    run(engine, [cold])
    half = len(prompt) // 2
    (stored,) = prefill(engine, 2, prompt[:half], half)
    assert stored is not None
    assert stored.length == half
    for id in (3, 4):  # twice: the first use must not have written into it
        warm = Job(id, prompt, Sampling(temperature=0), snapshot=stored, computed=half)
        run(engine, [warm])
        assert warm.text == cold.text


def test_a_snapshot_stays_what_it_is_whoever_goes_on_from_it(checkpoint: Path) -> None:
    engine = backend(checkpoint)
    prompt = prompts(1, seed=9)[0] * 3
    (stored,) = prefill(engine, 1, prompt, len(prompt))
    assert isinstance(stored, KVSnapshot)
    before = [np.array(array) for array in arrays(stored)]
    for id, length in ((2, len(prompt)), (3, max(len(prompt) - 3, stored.shortest))):
        run(engine, [Job(id, [*prompt[:length], 7, 8, 9], SAMPLINGS[0], snapshot=stored, computed=length)])
    assert before
    assert all(np.array_equal(*pair) for pair in zip(before, arrays(stored), strict=True))


def test_a_snapshot_is_cut_shorter_only_where_the_cache_allows_it(checkpoint: Path) -> None:
    prompt = prompts(1, seed=8)[0] * 2
    whole, shorter = prefill(backend(checkpoint), 1, prompt, len(prompt), len(prompt) - 3)
    assert whole is not None
    assert whole.nbytes > 0
    assert (shorter is not None) == (whole.shortest == 0)
