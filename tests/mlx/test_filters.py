"""Drawing: the filters keep what a plain sort would keep, and draws follow the distribution."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from appliance.engine.mlx.filters import _likeliest, draw_covered, draw_kept, draw_narrow, draw_plain, draw_wide
from appliance.engine.mlx.penalties import Penalties
from appliance.engine.mlx.randomness import uniform
from appliance.engine.mlx.rows import SampleRow
from appliance.vocab.request import Sampling

VOCABULARY = 1000
CASES = [
    # top_k, top_p, min_p
    (20, 1.0, 0.0),
    (20, 0.8, 0.0),
    (200, 0.5, 0.0),
    (200, 1.0, 0.2),
    (50, 0.9, 0.05),
    (1, 1.0, 0.0),
    (0, 0.9, 0.0),
    (0, 0.1, 0.0),
    (0, 1.0, 0.3),
    (400, 0.95, 0.01),
    (0, 1.0, 0.0),
    (0, 0.0, 0.0),
    (20, 0.0, 0.0),
    (0, 1e-300, 0.0),
    (0, 0.5, 1.0),
]


def reference(logits: np.ndarray, top_k: int, top_p: float, min_p: float) -> np.ndarray:
    """The filtered, renormalised distribution, by a sort: (V,) → (V,)."""
    weights = np.exp(logits.astype(np.float64) - logits.max())
    weights[weights < min_p] = 0
    order = np.argsort(-weights, kind="stable")
    if top_k:
        weights[order[top_k:]] = 0
    kept = weights[order]
    before = np.cumsum(kept) - kept
    dropped = before >= top_p * kept.sum()
    dropped[0] = False
    weights[order[dropped]] = 0
    return weights / weights.sum()


def drawer(top_k: int, top_p: float, min_p: float) -> dict[str, Callable[[mx.array, mx.array], mx.array]]:
    """Every way that may serve these parameters."""
    many = lambda value, rows: mx.array([value] * rows)  # noqa: E731
    ways = {
        "wide": lambda x, u: draw_wide(x, many(top_k, len(x)), many(top_p, len(x)), many(min_p, len(x)), u),
    }
    if top_k == 0:
        ways["wide, no row by rank"] = lambda x, u: draw_wide(x, None, many(top_p, len(x)), many(min_p, len(x)), u)
    if 0 < top_k <= 256:
        ways["narrow"] = lambda x, u: draw_narrow(
            x, many(top_k, len(x)), many(top_p, len(x)), many(min_p, len(x)), top_k, u
        )
    if (top_k, top_p, min_p) == (0, 1.0, 0.0):
        ways["plain"] = draw_plain
    return ways


@pytest.mark.parametrize(("top_k", "top_p", "min_p"), CASES, ids=str)
@pytest.mark.parametrize("spread", [0.5, 3.0], ids=["flat", "peaked"])
def test_draws_follow_the_distribution_that_a_sort_gives(
    top_k: int, top_p: float, min_p: float, spread: float
) -> None:
    logits = np.random.default_rng(3).normal(0, spread, VOCABULARY).astype(np.float32)
    expected = reference(logits, top_k, top_p, min_p)
    grid = (np.arange(4000) + 0.5) / 4000  # every quantile once: no luck involved
    for name, draw in drawer(top_k, top_p, min_p).items():
        rows = mx.array(np.tile(logits, (500, 1)))
        drawn = np.concatenate(
            [np.array(draw(rows, mx.array(grid[i : i + 500].astype(np.float32)))) for i in range(0, 4000, 500)]
        )
        found = np.bincount(drawn, minlength=VOCABULARY) / 4000
        assert set(np.flatnonzero(found)) <= set(np.flatnonzero(expected)), name
        assert np.abs(found - expected).max() < 2 / 4000 + 1e-4, name


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("spread", [0.5, 3.0], ids=["flat", "peaked"])
def test_what_is_drawn_until_it_is_kept_follows_the_same_distribution(top_p: float, spread: float) -> None:
    logits = np.random.default_rng(3).normal(0, spread, VOCABULARY).astype(np.float32)
    expected = reference(logits, 0, top_p, 0.0)
    random, count = np.random.default_rng(8), 20_000
    uniforms = [mx.array(random.random(count).astype(np.float32)) for _ in range(20)]
    tokens, kept = map(
        np.array, draw_kept(mx.array(np.tile(logits, (count, 1))), mx.array([top_p] * count), uniforms)
    )
    found = np.bincount(tokens[kept], minlength=VOCABULARY) / kept.sum()
    assert kept.mean() > (0.99 if top_p else 0)
    assert set(np.flatnonzero(found)) <= set(np.flatnonzero(expected))
    assert np.abs(found - expected).max() < 0.015


def test_of_tokens_that_are_equally_likely_all_are_kept() -> None:
    rows = mx.array(np.tile(np.array([3.0, 3.0, 0.0], dtype=np.float32), (100, 1)))
    tokens, kept = draw_kept(rows, mx.array([0.1] * 100), [mx.array(np.linspace(0, 0.999, 100, dtype=np.float32))])
    assert set(np.array(tokens)[np.array(kept)].tolist()) == {0, 1}


@pytest.mark.parametrize("vocabulary", [5, 300, 20_000, 49_157, 150_000])
@pytest.mark.parametrize("count", [1, 40, 256])
@pytest.mark.parametrize("step", [0, 1 / 8], ids=["all different", "many equal"])
def test_the_likeliest_are_those_that_a_sort_puts_first(vocabulary: int, count: int, step: float) -> None:
    drawn = np.random.default_rng(5).normal(0, 3, (2, vocabulary)).astype(np.float32)
    logits = np.round(drawn / step) * step if step else drawn
    candidates, weights = map(np.array, _likeliest(mx.array(logits), count))
    best = -np.sort(-logits, axis=-1)[:, :count]
    assert all(len(set(row)) == len(row) for row in candidates.tolist())
    assert np.array_equal(np.take_along_axis(logits, candidates.astype(np.int64), axis=-1), best)
    assert np.allclose(weights, np.exp(best - best[:, :1]), atol=1e-6)


def test_each_row_has_its_own_parameters() -> None:
    logits = mx.array(np.tile(np.linspace(0, 5, 300, dtype=np.float32), (3, 1)))
    top_k, top_p, min_p = mx.array([1, 3, 2]), mx.array([1.0, 1.0, 0.01]), mx.array([0.0, 0.0, 0.0])
    nearly_one = mx.array([0.999999] * 3)
    assert draw_narrow(logits, top_k, top_p, min_p, 3, nearly_one).tolist() == [299, 297, 299]
    # The wide way walks the vocabulary, not the ranks: its first kept token is the lowest id.
    assert draw_wide(logits, top_k, top_p, min_p, mx.array([0.0] * 3)).tolist() == [299, 297, 299]


def test_a_draw_at_the_end_of_the_range_is_still_a_kept_token() -> None:
    logits = mx.array([[0.0, 1.0, -40.0, 2.0, -40.0]])
    last = mx.array([(2**23 - 1) / 2**23])
    assert draw_wide(logits, mx.array([0]), mx.array([0.99]), mx.array([0.0]), last).tolist() == [3]


@pytest.mark.parametrize(("top_k", "top_p", "min_p"), [case for case in CASES if case[0] in (0, 400)], ids=str)
@pytest.mark.parametrize("spread", [0.5, 3.0, 8.0], ids=["flat", "peaked", "steep"])
def test_a_draw_among_the_likeliest_says_so_when_they_were_not_all(
    top_k: int, top_p: float, min_p: float, spread: float
) -> None:
    logits = np.random.default_rng(4).normal(0, spread, VOCABULARY).astype(np.float32)
    expected = reference(logits, top_k, top_p, min_p)
    chances = mx.array(np.linspace(0, 0.999, 200, dtype=np.float32))
    many = lambda value: mx.array([value] * 200)  # noqa: E731
    drawn, covered = draw_covered(mx.array(np.tile(logits, (200, 1))), many(top_k), many(top_p), many(min_p), chances)
    sure = set(covered.tolist())
    assert len(sure) == 1
    if sure == {True}:
        assert np.count_nonzero(expected) <= 256
        found = np.bincount(np.array(drawn), minlength=VOCABULARY) / 200
        assert np.abs(found - expected).max() < 2 / 200
    elif top_k == 0 and min_p == 0:
        assert np.count_nonzero(expected) > 256


@pytest.mark.parametrize(
    ("penalties", "expected"),
    [
        ({"repetition_penalty": 2.0}, [1.0, -2.0, 3.0, 4.0]),
        ({"presence_penalty": 0.5}, [1.5, -1.0, 3.0, 4.0]),
        ({"frequency_penalty": 0.25}, [1.5, -1.0, 3.0, 4.0]),
        ({"presence_penalty": -0.5, "frequency_penalty": 0.5}, [1.5, -1.0, 3.0, 4.0]),
        ({"repetition_penalty": 2.0, "presence_penalty": 0.5, "frequency_penalty": 0.25}, [0.0, -2.0, 3.0, 4.0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("said_later", [0, 1, 2], ids="{} on the device".format)
def test_penalties_reach_the_answer_and_repetition_the_prompt_too(
    penalties: dict[str, float], expected: list[float], said_later: int
) -> None:
    prompt, answer = [1], [0, 0]
    known = prompt + answer[: 2 - said_later]
    row = SampleRow(Sampling(**penalties), known, len(prompt), frozenset())  # type: ignore[arg-type]
    held = Penalties.of([row], 4, [])
    assert held is not None
    for token in answer[2 - said_later :]:
        held.count(mx.array([token]))
    again = Penalties.of([SampleRow(Sampling(), [], 0, frozenset()), row], 4, [held])  # another row joined before it
    assert again is not None
    logits = mx.array([[2.0, -1.0, 3.0, 4.0]] * 2)
    assert again.apply(logits).tolist() == [[2.0, -1.0, 3.0, 4.0], expected]
    assert held.apply(logits[:1]).tolist() == [expected]


def test_uniform_numbers_are_even_and_never_reach_one() -> None:
    drawn = np.array([uniform(seed, position) for seed in range(200) for position in range(200)])
    assert drawn.max() < 1
    assert drawn.min() >= 0
    counts, _ = np.histogram(drawn, bins=20, range=(0, 1))
    assert np.abs(counts / len(drawn) - 0.05).max() < 0.005
    neighbours = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(neighbours) < 0.02


def test_uniform_numbers_depend_on_seed_and_position() -> None:
    assert uniform(1, 2) == uniform(1, 2)
    assert len({uniform(1, 2), uniform(2, 1), uniform(1, 1), uniform(-1, 2), uniform(2**63, 2)}) == 5
