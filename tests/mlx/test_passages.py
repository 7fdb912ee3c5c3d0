"""Passages that would be said again, against the definition read off token by token."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.passages import Passages, matches
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.rules import Dry, Rules
from appliance.vocab.request import Sampling
from tests.mlx.driving import Job, run

VOCABULARY = 6
texts = st.lists(st.integers(0, 3), max_size=24)
rules = st.builds(
    Dry,
    multiplier=st.just(0.5),
    base=st.sampled_from([1.0, 1.75]),
    length=st.integers(1, 3),
    window=st.sampled_from([None, 1, 5]),
    breakers=st.sampled_from([frozenset[int](), frozenset({3})]),
)


def defined(tokens: list[int], dry: Dry) -> list[float]:
    """What each token costs next."""
    tokens = tokens if dry.window is None else tokens[-dry.window :]
    costs = [0.0] * VOCABULARY
    for end in range(1, len(tokens)):
        length = 0
        while length < end and tokens[end - 1 - length] == tokens[-1 - length] not in dry.breakers:
            length += 1
        if length >= dry.length:
            costs[tokens[end]] = max(costs[tokens[end]], dry.multiplier * dry.base ** (length - dry.length))
    return costs


@settings(deadline=None)
@given(texts)
def test_matches_are_those_found_one_by_one(tokens: list[int]) -> None:
    def alike(place: int) -> int:
        pairs = zip(tokens, tokens[place:], strict=False)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), len(tokens) - place)

    assert matches(tokens) == [alike(place) for place in range(len(tokens))]


@settings(deadline=None, max_examples=60)
@given(st.lists(texts, min_size=1, max_size=3), texts, rules)
def test_each_row_pays_for_its_own_passages_with_every_token(
    opened: list[list[int]], said: list[int], dry: Dry
) -> None:
    rows = [SampleRow(Sampling(), tokens, 0, frozenset(), rules=Rules(dry=dry)) for tokens in opened]
    rows.insert(1, SampleRow(Sampling(), [0, 0, 0], 0, frozenset()))
    pasts = [list(row.known) for row in rows]
    passages = Passages.of(rows, VOCABULARY, [])
    assert passages is not None
    for token in (*said, None):
        costs = -np.array(passages.apply(mx.zeros((len(rows), VOCABULARY))))
        wanted = [[0.0] * VOCABULARY if row.rules.dry is None else defined(past, dry)
                  for row, past in zip(rows, pasts, strict=True)]  # fmt: skip
        assert costs == pytest.approx(np.array(wanted), rel=1e-5)
        if token is not None:
            passages.count(mx.array([token] * len(rows)))
            pasts = [[*past, token] for past in pasts]


def test_what_was_counted_is_taken_over_when_rows_change() -> None:
    dry = Dry(1.0, 2.0, 1, None, frozenset())
    rows = [SampleRow(Sampling(), [1, 2], 0, frozenset(), rules=Rules(dry=dry)) for _ in range(2)]
    before = Passages.of(rows, VOCABULARY, [])
    assert before is not None
    before.count(mx.array([1, 5]))
    after = Passages.of(rows[:1], VOCABULARY, [before])
    assert after is not None
    assert np.array(after.apply(mx.zeros((1, VOCABULARY))))[0].tolist() == [-c for c in defined([1, 2, 1], dry)]


def test_a_model_says_no_passage_twice_and_goes_on_alike_after_a_restart(engine: MlxBackend) -> None:
    prompt, few, greedy = [10, 20, 30, 40, 50], (5, 6, 7, 8), Sampling(temperature=0)
    strict = Rules(allowed=few, dry=Dry(1000.0, 1.0, 2, None, frozenset()))
    plain = Job(1, prompt, greedy, tokens=24, rules=Rules(allowed=few))
    bound = Job(2, prompt, greedy, tokens=24, rules=strict)
    run(engine, [plain, bound])
    threes = [tuple(bound.text[at : at + 3]) for at in range(len(bound.text) - 2)]
    assert len(threes) == len(set(threes))
    assert plain.text != bound.text
    resumed = Job(3, prompt, greedy, tokens=12, emitted=bound.text[:12], rules=strict)
    run(engine, [resumed])
    assert bound.text[:12] + resumed.text == bound.text
