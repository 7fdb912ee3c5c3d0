"""A prompt's own tokens are scored as the same tokens are when the model says them."""

from pathlib import Path

import pytest

from appliance.engine.mlx import scores
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.rules import NO_RULES, Rules
from appliance.vocab.request import Sampling
from tests.mlx.driving import Job, run
from tests.mlx.families import FAMILIES, make
from tests.mlx.walking import Asked, Engine, Ground

PROMPT = [10, 20, 30, 40, 50]


@pytest.mark.parametrize("chunk", [3, 512], ids=["in chunks", "in one"])
@pytest.mark.parametrize("slice_tokens", [2, 256], ids=["in slices", "whole"])
def test_a_token_of_the_prompt_has_the_score_it_had_as_an_answer(
    engine: MlxBackend, monkeypatch: pytest.MonkeyPatch, chunk: int, slice_tokens: int
) -> None:
    monkeypatch.setattr(scores, "SLICE_TOKENS", slice_tokens)
    said = Job(1, PROMPT, Sampling(temperature=0, logprobs=3), tokens=12)
    run(engine, [said])
    prompt = PROMPT + said.text
    jobs = [
        Job(1, prompt, Sampling(temperature=0), tokens=3, chunk=chunk, rules=Rules(scores=3)),
        Job(2, PROMPT, Sampling(temperature=0), tokens=3),
    ]
    run(engine, jobs)
    told = jobs[0].got[0].prompt
    assert [each.token for each in told] == prompt
    assert told[0].logprob is None
    for before, after in zip(said.got, told[len(PROMPT) :], strict=True):
        assert after.logprob == pytest.approx(before.logprob, abs=1e-3)
        assert [c.token for c in after.top] == [c.token for c in before.top]
        assert after.rank == 1
    assert not any(sampled.prompt for sampled in (*jobs[0].got[1:], *jobs[1].got))


def test_a_prompt_of_one_token_and_one_without_candidates(engine: MlxBackend) -> None:
    jobs = [
        Job(1, [7], Sampling(temperature=0), tokens=1, rules=Rules(scores=0)),
        Job(2, [7, 8], Sampling(temperature=0), tokens=1, rules=Rules(scores=0)),
    ]
    run(engine, jobs)
    assert [(each.token, each.rank) for each in jobs[0].got[0].prompt] == [(7, None)]
    assert [(each.token, each.top) for each in jobs[1].got[0].prompt] == [(7, ()), (8, ())]


def test_a_rank_says_how_many_tokens_were_likelier(engine: MlxBackend) -> None:
    every = Job(1, PROMPT, Sampling(temperature=0), tokens=1, rules=Rules(scores=1000))
    none = Job(2, PROMPT, Sampling(temperature=0), tokens=1, rules=Rules(scores=0))
    run(engine, [every, none])
    for ranked, alone in zip(every.got[0].prompt[1:], none.got[0].prompt[1:], strict=True):
        assert ranked.rank == alone.rank == [c.token for c in ranked.top].index(ranked.token) + 1


def test_a_prompt_is_scored_once_though_its_row_is_given_up_and_comes_back(tmp_path: Path) -> None:
    engine = Engine(make(tmp_path, FAMILIES["llama, plain cache"]), Ground(room=150, rows=2, prefix_bytes=0))
    asked = [Asked(PROMPT, Sampling(temperature=0), 120, rules, frozenset()) for rules in (NO_RULES, Rules(scores=2))]
    engine.answer(asked)
    assert engine.backend.opened == [0, 1, 1]
    assert [place for place, sampled in enumerate(asked[1].got) if sampled.prompt] == [0]
    assert asked[0].text == asked[1].text
