"""Guesses change how fast an answer comes, never a token of it: greedy, drawn, penalised, with log-probabilities."""

import random
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import mlx.core as mx
import pytest
from msgspec import structs

from appliance.engine.backend import Batch, Chunk, Draft, Opening, StepResult
from appliance.engine.constraint import NO_GRAMMAR, Grammars
from appliance.engine.mlx.batch import NARROW_AT, Decoding, Row
from appliance.engine.mlx.step import MlxStep
from appliance.engine.mlx.verify import Verification
from appliance.engine.rules import NO_RULES, Dry, Rules
from appliance.errors import LoadFailed
from appliance.vocab.event import Finished
from appliance.vocab.request import Grammar, Sampling
from appliance.vocab.spec import Speculative
from tests.checkpoints import tiny_vocab_llama
from tests.mlx.families import FAMILIES, VOCABULARY, make
from tests.mlx.speculating import Asked, Device
from tests.mlx.test_batch import SAMPLINGS

LOOKUP = Speculative(kind="lookup", depth=8, max_batch=4)
CUTTABLE = ["llama, plain cache", "qwen3-moe, experts"]
OTHERS = ["gemma3, sliding window", "mamba, state only"]
IDS = [f"sampling {n}" for n in range(len(SAMPLINGS))]


@pytest.fixture(scope="module", params=CUTTABLE, ids=CUTTABLE)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return Device(make(tmp_path_factory.mktemp("family"), FAMILIES[request.param]))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("large"), FAMILIES["llama, plain cache"])


def prompt(seed: int, length: int = 20) -> list[int]:
    drawn = random.Random(seed)
    return [drawn.randrange(3, VOCABULARY) for _ in range(length)]


def spoilt(tokens: list[int], every: int) -> list[int]:
    """A forecast that is wrong now and then."""
    return [3 if n % every == every - 1 else token for n, token in enumerate(tokens)]


def again(asked: Asked, foretold: list[int] | None = None) -> Asked:
    return replace(asked, foretold=foretold, got=[], sampled=[], events=[])


def plainly(device: Device, asked: Asked) -> Asked:
    """As it would be answered alone and without guesses."""
    alone = replace(again(asked), at=0)
    device.answer([alone])
    return alone


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=IDS)
@pytest.mark.parametrize("every", [100, 5, 2], ids=["a true forecast", "wrong now and then", "often wrong"])
def test_an_answer_that_was_guessed_is_the_answer(device: Device, sampling: Sampling, every: int) -> None:
    asked = Asked(prompt(1), sampling)
    plain = plainly(device, asked)
    guessed = again(asked, spoilt(plain.got, every))
    speculation = device.answer([guessed], LOOKUP)
    assert guessed.got == plain.got
    assert speculation.drafted > 0
    if every == 100:
        assert len(device.backend.batches) < asked.tokens / 2, "guesses that are right save steps"


@pytest.mark.parametrize("stagger", [0, 3], ids=["all at once", "joining"])
def test_rows_of_a_batch_accept_each_as_much_as_was_right(device: Device, stagger: int) -> None:
    asked = [Asked(prompt(n, 9 + 7 * n), SAMPLINGS[n], 16 + 8 * n, at=stagger * n) for n in range(4)]
    plain = [plainly(device, one) for one in asked]
    guessed = [again(one, spoilt(told.got, 3 + n)) for n, (one, told) in enumerate(zip(asked, plain, strict=True))]
    speculation = device.answer(guessed, LOOKUP)
    assert [one.got for one in guessed] == [one.got for one in plain]
    lengths = [{len(draft.tokens) for draft in batch.drafts} for batch in device.backend.batches]
    assert any(len(those) > 1 for those in lengths), "no batch had drafts of several lengths"
    assert 0 < speculation.accepted < speculation.drafted


REMEMBERING = {
    "frequency": (Sampling(temperature=0, frequency_penalty=2), NO_RULES),
    "presence": (Sampling(temperature=0, presence_penalty=2), NO_RULES),
    "repetition": (Sampling(temperature=0, repetition_penalty=1.5), NO_RULES),
    "passages": (
        Sampling(temperature=0),
        Rules(dry=Dry(multiplier=4.0, base=2.0, length=1, breakers=frozenset(), window=None)),
    ),
    "words": (
        Sampling(temperature=0),
        Rules(banned=tuple((before, last) for before in range(3) for last in range(3))),
    ),
}


@pytest.mark.parametrize("what", REMEMBERING)
def test_a_row_without_guesses_beside_guessed_ones_remembers_what_it_said(device: Device, what: str) -> None:
    """It was stepped, which the host does not follow, before another's guesses had it verified."""
    sampling, rules = REMEMBERING[what]
    few = dict.fromkeys(range(3), 12.0)  # so that it says the same ones again and again
    row = Asked(prompt(2), structs.replace(sampling, logit_bias=few), 70, rules=rules)
    others = [Asked(prompt(3 + n), Sampling(temperature=1, seed=n), 6, at=10 + 9 * n) for n in range(6)]
    plain = [plainly(device, one).got for one in (row, *others)]
    unruled = plainly(device, replace(row, sampling=Sampling(temperature=0, logit_bias=few), rules=NO_RULES))
    assert unruled.got != plain[0]
    guessed = [again(row), *(again(one, told) for one, told in zip(others, plain[1:], strict=True))]
    assert device.answer(guessed).accepted > len(others)
    assert [one.got for one in guessed] == plain


def test_a_rectangle_does_not_grow_with_what_was_guessed_wrong(device: Device) -> None:
    asked = [Asked(prompt(n), Sampling(temperature=1, seed=n), 240) for n in range(2)]
    plain = [plainly(device, one) for one in asked]
    first, second = (one.got for one in plain)
    forecasts = [first[:120] + spoilt(first[120:], 2), spoilt(second[:30], 2) + second[30:]]
    guessed = [again(one, forecast) for one, forecast in zip(asked, forecasts, strict=True)]
    wastes: list[int] = []
    verify = Decoding.verify

    def noted(decoding: Decoding, drafts: list[tuple[Row, Draft]]) -> tuple[list[Row], Verification]:
        if len(decoding._rows) > 1:
            wastes.append(decoding._caches[0].size() - max(row.computed for row in decoding._rows))
        return verify(decoding, drafts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Decoding, "verify", noted)
        device.answer(guessed, LOOKUP)
    assert [one.got for one in guessed] == [one.got for one in plain]
    assert 0 < max(wastes) <= NARROW_AT
    assert any(later < before for before, later in pairwise(wastes)), "nothing was given back"


def test_more_rows_than_max_batch_are_not_guessed(device: Device) -> None:
    asked = [Asked(prompt(n), Sampling(temperature=0), 12) for n in range(5)]
    guessed = [again(one, plainly(device, one).got) for one in asked]
    speculation = device.answer(guessed, LOOKUP)
    assert max(len(batch.decode) for batch in device.backend.batches) == 5
    assert speculation.drafted == 0


def test_log_probabilities_of_guessed_tokens_are_those_of_the_others(device: Device) -> None:
    asked = Asked(prompt(5), Sampling(temperature=0.9, seed=11, logprobs=3), 16)
    plain = plainly(device, asked)
    guessed = again(asked, plain.got)
    device.answer([guessed], LOOKUP)
    for ours, theirs in zip(guessed.sampled, plain.sampled, strict=True):
        assert [top.token for top in ours.top] == [top.token for top in theirs.top]
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-4)


@pytest.mark.parametrize("place", [0, 2, 5], ids=["the first", "within a guess", "later"])
def test_a_stop_token_within_a_guess_ends_the_answer(device: Device, place: int) -> None:
    asked = Asked(prompt(6), Sampling(temperature=1, seed=2))
    told = plainly(device, asked).got
    ending = replace(asked, stop_ids=frozenset({told[place]}))
    plain = plainly(device, ending)
    guessed = again(ending, told)
    device.answer([guessed], LOOKUP)
    assert guessed.got == plain.got == told[: told.index(told[place]) + 1]
    finished = guessed.events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.usage.completion_tokens) == ("stop", len(guessed.got))


def test_a_stop_token_before_min_tokens_is_not_said(device: Device) -> None:
    told = plainly(device, Asked(prompt(7), Sampling(temperature=0))).got
    asked = Asked(prompt(7), Sampling(temperature=0, min_tokens=8), stop_ids=frozenset({told[3]}))
    plain = plainly(device, asked)
    guessed = again(asked, told)
    device.answer([guessed], LOOKUP)
    assert guessed.got == plain.got
    assert len(plain.got) >= 8


def test_what_was_kept_of_a_guessed_answer_continues_as_it_was(device: Device) -> None:
    """The stored keys and values end where the answer does, not where the guesses did."""
    asked = Asked(prompt(8), Sampling(temperature=1, seed=6))
    told = plainly(device, asked).got
    ending = replace(asked, stop_ids=frozenset({told[6]}))
    first = again(ending, told)
    second = Asked([*asked.prompt, *told[:7], 9, 10], Sampling(temperature=0), at=60)
    plain = plainly(device, second)
    device.answer([first, second], LOOKUP, prefix_bytes=1 << 20)
    assert second.got == plain.got
    finished = second.events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.cached_tokens == len(asked.prompt) + 6


def test_a_row_that_leaves_while_its_guesses_are_verified_touches_no_other(device: Device) -> None:
    leaving, staying, coming = (Asked(prompt(n, 12 + n), SAMPLINGS[n], 20) for n in (1, 2, 3))
    told = [plainly(device, asked).got for asked in (leaving, staying, coming)]
    for last in (True, False):
        engine = device.backend
        engine.open(Opening(1, leaving.prompt, 0, None, leaving.sampling, len(leaving.prompt)))
        engine.open(Opening(2, staying.prompt, 0, None, staying.sampling, len(staying.prompt)))
        chunks = [Chunk(id, 0, asked.prompt[:-1], True) for id, asked in ((1, leaving), (2, staying))]
        drafts = [Draft(1, leaving.prompt, tuple(told[0][:3])), Draft(2, staying.prompt, (told[1][0], 3, 3))]
        wait(engine.launch(Batch((), tuple(chunks))))
        ids = (1,) if last else (1, 2)
        step = engine.launch(Batch(ids, (), tuple(drafts[: len(ids)])))
        step.begin()
        engine.close(1)
        engine.open(Opening(3, coming.prompt, 0, None, coming.sampling, len(coming.prompt)))
        beside = engine.launch(Batch((), (Chunk(3, 0, coming.prompt[:-1], True),)))
        result = step.wait()
        wait(beside)
        got = [] if last else [result.sampled[2].token, *(more.token for more in result.further[2])]
        news = [wait(engine.launch(Batch((2, 3), ()))).sampled for _ in range(4)]
        got += [step[2].token for step in news]
        assert got == told[1][: len(got)]
        assert [step[3].token for step in news] == told[2][:4]
        engine.close(2)
        engine.close(3)


def wait(step: MlxStep) -> StepResult:
    step.begin()
    return step.wait()


@pytest.mark.parametrize("seed", range(4))
def test_whoever_comes_and_leaves_all_answers_are_theirs(device: Device, seed: int) -> None:
    rng = random.Random(seed)
    asked = [
        Asked(prompt(n, rng.randint(2, 40)), SAMPLINGS[n % len(SAMPLINGS)], rng.randint(5, 40), at=rng.randint(0, 60))
        for n in range(10)
    ]
    plain = [plainly(device, one).got for one in asked]
    guessed = [
        replace(
            again(one, spoilt(told, rng.randint(2, 20))),
            leaves=one.at + rng.randint(1, 20) if rng.random() < 0.4 else None,
        )
        for one, told in zip(asked, plain, strict=True)
    ]
    device.answer(guessed, LOOKUP, prefix_bytes=rng.choice([0, 1 << 20]))
    for one, told in zip(guessed, plain, strict=True):
        assert one.got == told[: len(one.got)]
        assert one.leaves is not None or len(one.got) == len(told)


@pytest.mark.parametrize("every", [100, 4, 2], ids=["a true forecast", "wrong now and then", "often wrong"])
@pytest.mark.parametrize("seed", range(3))
def test_a_guessed_answer_keeps_to_its_form(device: Device, every: int, seed: int) -> None:
    grammars = Grammars(device.tokenizer.tokenizer_json, VOCABULARY, device.tokenizer.eos_ids)
    constraint = grammars.compile(Grammar("regex", "(ab|cd){6}[0-9]{8}(yes|no)"))
    beside = Asked(prompt(seed, 30), SAMPLINGS[3], 12)
    asked = Asked(
        prompt(seed), Sampling(temperature=1, seed=seed), 40, stop_ids=frozenset({0, 2}), constraint=constraint
    )
    plain = [plainly(device, one).got for one in (asked, beside)]
    text = "".join(map(chr, b"".join(map(device.tokenizer.raw, plain[0]))))
    assert re.fullmatch("(ab|cd){6}[0-9]{8}(yes|no)", text)
    guessed = again(asked, spoilt(plain[0], every))
    speculation = device.answer([guessed], LOOKUP)
    assert guessed.got == plain[0]
    assert speculation.accepted > 0
    together = [again(asked, spoilt(plain[0], every)), again(beside, spoilt(plain[1], 3))]
    device.answer(together, LOOKUP)
    assert [one.got for one in together] == plain


def test_an_answer_whose_reasoning_has_a_budget_is_not_guessed(device: Device) -> None:
    watched = NO_GRAMMAR.watched(Unconcerned)
    asked = Asked(prompt(2), Sampling(temperature=0), 12, constraint=watched)
    guessed = again(asked, plainly(device, asked).got)
    assert device.answer([guessed], LOOKUP).drafted == 0


class Unconcerned:
    """A watch that never has a say."""

    only = None

    def accept(self, token: int) -> None: ...


@pytest.mark.parametrize("family", OTHERS)
def test_models_whose_caches_cannot_be_cut_back_decode_plainly(family: str, tmp_path: Path) -> None:
    device = Device(make(tmp_path, FAMILIES[family]), LOOKUP)
    asked = Asked(prompt(9), Sampling(temperature=0))
    guessed = again(asked, plainly(device, asked).got)
    assert device.answer([guessed], LOOKUP).drafted == 0
    assert any("guess" in note for note in device.info.notes)


def test_drawn_answers_follow_the_models_distribution(llama: Path) -> None:
    """Of the second token, over many seeds, beside what the model itself gives it."""
    device = Device(llama)
    start = prompt(10)
    first = plainly(device, Asked(start, Sampling(temperature=0), 1)).got
    logits = device.backend._model(mx.array([[*start, *first]]))[0, -1]
    kept = mx.sort(mx.softmax(logits / 0.5))[-4:]
    expected = (kept / kept.sum()).tolist()[::-1]
    ranked = mx.argsort(-logits)[:4].tolist()
    said: Counter[int] = Counter()
    for round in range(40):
        seeds = range(15 * round, 15 * round + 15)
        asked = [
            Asked([*start, *first], Sampling(temperature=0.5, top_k=4, seed=seed), 2, foretold=[ranked[0], 5])
            for seed in seeds
        ]
        device.answer(asked, Speculative(kind="lookup", depth=2, max_batch=16))
        said.update(one.got[0] for one in asked)
    assert set(said) <= set(ranked)
    chi = sum((said[token] - 600 * p) ** 2 / (600 * p) for token, p in zip(ranked, expected, strict=True))
    assert chi < 16.3, (said, expected)  # 3 degrees of freedom, 0.1 %


# ---- a small model that guesses
def drafted(directory: Path, small: Path, **more: object) -> Speculative:
    return Speculative(kind="draft", draft=str(small), depth=4, max_batch=4, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("same", [True, False], ids=["the same weights", "other weights"])
def test_a_draft_model_changes_no_token(llama: Path, tmp_path: Path, same: bool) -> None:
    small = llama if same else tiny_vocab_llama(tmp_path / "small", seed=3)
    speculative = drafted(llama, small)
    device = Device(llama, speculative)
    for number, sampling in enumerate(SAMPLINGS):
        asked = Asked(prompt(number), sampling)
        plain = plainly(device, asked)
        guessed = again(asked)
        speculation = device.answer([guessed], speculative)
        assert guessed.got == plain.got, sampling
        assert speculation.drafted > 0
        assert not same or speculation.accepted == speculation.drafted, sampling


def test_a_draft_model_follows_each_row_of_a_batch(llama: Path, tmp_path: Path) -> None:
    speculative = drafted(llama, tiny_vocab_llama(tmp_path / "small", seed=3))
    device = Device(llama, speculative)
    asked = [Asked(prompt(n, 5 + 9 * n), SAMPLINGS[n], 10 + 5 * n, at=n) for n in range(4)]
    plain = [plainly(device, one) for one in asked]
    guessed = [again(one) for one in asked]
    device.answer(guessed, speculative)
    assert [one.got for one in guessed] == [one.got for one in plain]


def test_a_draft_model_reads_a_long_prompt_in_parts_while_the_answer_goes_on(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speculative = drafted(llama, llama)
    device = Device(llama, speculative)
    asked = [Asked(prompt(1, 300), Sampling(temperature=0)), Asked(prompt(2, 20), Sampling(temperature=0))]
    plain = [plainly(device, one) for one in asked]
    small = device.backend._draft_model
    assert small is not None
    read, reads = small._read, list[tuple[int, int]]()

    def noted(held: object, known: list[int], start: int, end: int) -> object:
        reads.append((len(known), end - start))
        return read(held, known, start, end)  # type: ignore[arg-type]

    monkeypatch.setattr(small, "_read", noted)
    monkeypatch.setattr(small._pace, "tokens", lambda budget, start: 100)
    guessed = [again(one) for one in asked]
    speculation = device.answer(guessed, speculative)
    assert [one.got for one in guessed] == [one.got for one in plain]
    assert [tokens for known, tokens in reads if known >= 300][:3] == [100, 100, 100]
    assert [known for known, _ in reads if known >= 300][:3] == [300, 301, 302]
    assert speculation.accepted == speculation.drafted > 0


REFUSALS = {
    "another tokenizer": ("draft", "tokenizers differ"),
    "a state that cannot be cut back": ("draft", "cannot be cut back"),
    "no such directory": ("draft", "no-such-model"),
    "its own heads": ("mtp", "leaves them out of llama"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_load_says_why_nothing_can_guess_for_a_model(case: str, llama: Path, tmp_path: Path) -> None:
    kind, words = REFUSALS[case]
    small = tmp_path / "no-such-model"
    if case == "another tokenizer":
        make(small, FAMILIES["llama, plain cache"])
        text = (small / "tokenizer.json").read_text(encoding="utf-8")
        (small / "tokenizer.json").write_text(text.replace("<|im_end|>", "<|other|>"), encoding="utf-8")
    elif case == "a state that cannot be cut back":
        make(small, FAMILIES["mamba, state only"])
    with pytest.raises(LoadFailed, match=words) as refused:
        Device(llama, Speculative(kind=kind, draft=str(small)))  # type: ignore[arg-type]
    assert refused.value.permanent
