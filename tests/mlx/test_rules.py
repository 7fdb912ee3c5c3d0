"""Tokens that an answer may not hold, seen from what a model gives."""

import numpy as np

from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.rules import Rules
from appliance.vocab.request import Sampling
from tests.mlx.driving import Job, run
from tests.mlx.families import VOCABULARY

PROMPT = [10, 20, 30, 40, 50]
GREEDY = Sampling(temperature=0)
WARM = Sampling(temperature=1.5, seed=3)


def answers(engine: MlxBackend, *asked: tuple[Sampling, Rules], tokens: int = 12) -> list[list[int]]:
    """All of them at once, each joining a step later than the one before."""
    jobs = [Job(n, PROMPT, sampling, tokens=tokens, at=n, rules=rules) for n, (sampling, rules) in enumerate(asked)]
    run(engine, jobs)
    return [job.text for job in jobs]


def test_a_word_of_one_token_is_never_said(engine: MlxBackend) -> None:
    [plain] = answers(engine, (GREEDY, Rules()))
    [without] = answers(engine, (GREEDY, Rules(banned=((plain[0],), (plain[3],)))))
    assert not {plain[0], plain[3]} & set(without)


def test_a_word_of_several_tokens_may_be_begun_but_not_finished(engine: MlxBackend) -> None:
    [plain] = answers(engine, (GREEDY, Rules()))
    for length in (2, 3, 4):
        word = tuple(plain[2 : 2 + length])
        [without] = answers(engine, (GREEDY, Rules(banned=(word,))))
        assert without[: 1 + length] == plain[: 1 + length]
        assert without[1 + length] != plain[1 + length]
        assert all(tuple(without[at : at + length]) != word for at in range(len(without)))


def test_the_prompt_is_not_the_answers_word(engine: MlxBackend) -> None:
    [plain] = answers(engine, (GREEDY, Rules()))
    [same] = answers(engine, (GREEDY, Rules(banned=((PROMPT[-1], plain[0]),))))
    assert same[0] == plain[0]


def test_a_word_is_known_after_a_restart(engine: MlxBackend) -> None:
    [plain] = answers(engine, (GREEDY, Rules()))
    word = tuple(plain[2:5])
    [without] = answers(engine, (GREEDY, Rules(banned=(word,))))
    resumed = Job(9, PROMPT, GREEDY, tokens=8, emitted=plain[:4], rules=Rules(banned=(word,)))
    run(engine, [resumed])
    assert plain[:4] + resumed.text == without


def test_nothing_but_what_is_allowed_is_said(engine: MlxBackend) -> None:
    allowed = (7, 70, 71)
    greedy, warm = answers(engine, (GREEDY, Rules(allowed=allowed)), (WARM, Rules(allowed=allowed)))
    assert set(greedy) | set(warm) <= set(allowed)
    assert len(set(warm)) > 1


def test_rules_of_one_row_are_its_own(engine: MlxBackend) -> None:
    [plain] = answers(engine, (GREEDY, Rules()))
    asked = [
        (GREEDY, Rules()), (GREEDY, Rules(banned=((plain[0],),))), (WARM, Rules(allowed=(5, 6))),
        (WARM, Rules(xtc=(1.0, 0.0))), (GREEDY, Rules(banned=(tuple(plain[1:3]), (plain[0], plain[1])))),
    ]  # fmt: skip
    together = answers(engine, *asked)
    assert together == [answers(engine, one)[0] for one in asked]
    assert together[0] == plain


def test_the_likely_are_left_out_as_often_as_asked(engine: MlxBackend) -> None:
    never, always, half = (Rules(xtc=(chance, 0.0)) if chance else Rules() for chance in (0.0, 1.0, 0.5))
    jobs = [Job(n, PROMPT, Sampling(temperature=1.0, seed=n), tokens=1, rules=half) for n in range(400)]
    for start in range(0, 400, 16):
        run(engine, jobs[start : start + 16])
    # With a threshold of 0 only the least likely token of all is left: it is what an unlikely draw would give.
    [least] = answers(engine, (WARM, always), tokens=1)
    often = np.mean([job.text[0] == least[0] for job in jobs])
    assert 0.4 < often < 0.6
    assert answers(engine, (GREEDY, always)) == answers(engine, (GREEDY, never))
    [far] = answers(engine, (WARM, Rules(xtc=(1.0, 0.5))))
    assert far == answers(engine, (WARM, never))[0]
    assert max(far) < VOCABULARY
