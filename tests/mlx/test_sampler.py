"""Sampling parameters, seen from the tokens a model gives."""

import math

import mlx.core as mx
import pytest

from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.masking import MaskWorkshop
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.sampler import Sampler
from appliance.vocab.request import Sampling
from tests.mlx.driving import Job, run
from tests.mlx.families import VOCABULARY

PROMPT = [10, 20, 30, 40, 50]
STOPS = frozenset({0, 2})


def answer(engine: MlxBackend, tokens: int = 8, **sampling: object) -> Job:
    job = Job(1, PROMPT, Sampling(**({"temperature": 0} | sampling)), tokens=tokens, stop_ids=STOPS)  # type: ignore[arg-type]
    run(engine, [job])
    return job


def test_a_bias_of_plus_100_forces_a_token_and_minus_100_forbids_it(engine: MlxBackend) -> None:
    plain = answer(engine).text
    assert answer(engine, logit_bias={77: 100.0}).text == [77] * 8
    assert plain[0] not in answer(engine, logit_bias={plain[0]: -100.0}).text


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others(engine: MlxBackend) -> None:
    first = answer(engine, temperature=1.0, seed=1).text
    assert first == answer(engine, temperature=1.0, seed=1).text
    assert first != answer(engine, temperature=1.0, seed=2).text


@pytest.mark.parametrize(
    "greedy", [{"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 1e-6}, {"temperature": 1e-3}]
)
def test_narrow_settings_are_greedy(engine: MlxBackend, greedy: dict[str, float]) -> None:
    assert answer(engine, seed=5, **greedy).text == answer(engine).text


def test_a_strong_frequency_penalty_never_repeats(engine: MlxBackend) -> None:
    tokens = answer(engine, tokens=20, frequency_penalty=2.0, presence_penalty=2.0, repetition_penalty=5.0).text
    assert len(set(tokens)) > len(set(answer(engine, tokens=20).text))


def test_end_tokens_are_impossible_before_min_tokens(engine: MlxBackend) -> None:
    biased = {0: 50.0, 2: 60.0}
    assert answer(engine, logit_bias=biased).text[0] in STOPS
    tokens = answer(engine, logit_bias=biased, min_tokens=4).text
    assert not STOPS & set(tokens[:4])
    assert tokens[4] in STOPS


def test_logprobs_are_the_models_own_and_sorted(engine: MlxBackend) -> None:
    job = answer(engine, logprobs=VOCABULARY - 1)
    for sampled in job.got:
        assert sampled.logprob is not None
        values = [candidate.logprob for candidate in sampled.top]
        assert values == sorted(values, reverse=True)
        assert sampled.top[0].token == sampled.token
        assert sampled.top[0].logprob == pytest.approx(sampled.logprob)
        assert sum(math.exp(value) for value in values) == pytest.approx(1, abs=0.05)


def test_logprobs_do_not_change_with_temperature_or_bias(engine: MlxBackend) -> None:
    plain = answer(engine, tokens=1, logprobs=5).got[0]
    biased = answer(engine, tokens=1, logprobs=5, logit_bias={9: 100.0}, presence_penalty=1.0).got[0]
    assert [c.token for c in biased.top] == [c.token for c in plain.top]
    assert biased.token == 9


def test_only_rows_that_asked_get_logprobs(engine: MlxBackend) -> None:
    asking = [0, None, 2, None]
    jobs = [Job(i, PROMPT, Sampling(temperature=0, logprobs=n), tokens=3) for i, n in enumerate(asking)]
    run(engine, jobs)
    for job, wanted in zip(jobs, asking, strict=True):
        for sampled in job.got:
            assert (sampled.logprob is not None) == (wanted is not None)
            assert len(sampled.top) == (wanted or 0)


def test_a_row_whose_logits_are_no_numbers_fails_alone() -> None:
    rows = [SampleRow(Sampling(temperature=t, seed=1), [1, 2], 2, frozenset()) for t in (0, 1.0, 0, 0.7)]
    logits = mx.random.normal((4, 50))
    logits[1] = mx.array([float("nan")] * 50)
    logits[2] = mx.array([float("-inf")] * 50)
    choice = Sampler(rows, 50, MaskWorkshop()).sample(logits)
    assert len(choice.read()) == 4
    assert set(choice.errors()) == {1, 2}
