"""The rest of a prompt and its first token in one pass: what it says, and what is kept of it."""

from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm import load

from appliance.engine.adapter import read
from appliance.engine.backend import Batch, Chunk, Opening
from appliance.engine.mlx.head import Head
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.speed import NOTHING_READ
from appliance.vocab.request import Sampling
from tests import lora
from tests.mlx.driving import backend
from tests.mlx.families import FAMILIES, MORE, VOCABULARY, make
from tests.mlx.speculating import Asked, Device

GREEDY, SEEDED = Sampling(temperature=0.0, logprobs=3), Sampling(temperature=1.0, seed=7, logprobs=3)
ALL = FAMILIES | MORE


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own head"])
def test_the_last_logits_are_the_same_without_the_others(tmp_path: Path, family: str, tied: bool) -> None:
    model = load(str(make(tmp_path / "model", ALL[family] | {"tie_word_embeddings": tied})))[0]
    tokens = mx.array([[5, 9, 200, 31, 7]])
    whole = model(tokens)
    with Head(model, VOCABULARY).last_only():
        last = model(tokens)
    assert (whole.shape[1], last.shape[1]) == (5, 1)
    assert mx.allclose(last[:, -1], whole[:, -1], atol=1e-4)
    assert mx.array_equal(model(tokens), whole), "the model is not as it was"


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_an_answer_that_began_with_the_rest_of_its_prompt_is_the_same(tmp_path: Path, sampling: Sampling) -> None:
    device = Device(make(tmp_path / "llama", FAMILIES["llama, plain cache"]))
    system = [3 + n * 7 % 250 for n in range(40)]
    cold, again, other = ([*system, *range(20, 20 + rest)] for rest in (12, 12, 17))
    asked = [Asked(prompt, sampling, tokens=6) for prompt in (cold, again, other)]
    prefixes = PrefixCache(1 << 24)
    fused = []
    for one in asked:
        device.answer([one], prefixes=prefixes)
        fused.append([len(batch.fused.tokens) if batch.fused else 0 for batch in device.backend.batches[:1]])
        alone = Asked(one.prompt, sampling, tokens=6)
        device.answer([alone])
        assert one.got == alone.got
        pairs = zip(one.sampled, alone.sampled, strict=True)
        assert all(abs(a.logprob - b.logprob) < 1e-4 for a, b in pairs if a.logprob and b.logprob)
    assert fused == [[0], [0], [4]], "the first is new, of the second nothing is left to read"
    assert prefixes.match([*other, 1], "").length >= len(other) - 1, "what was read is kept"


@pytest.mark.parametrize("order", ["changed again", "by turns"])
def test_an_adapter_of_the_output_layer_stays_where_it_is(tmp_path: Path, order: str) -> None:
    config = FAMILIES["llama, plain cache"] | {"tie_word_embeddings": False}
    device = Device(make(tmp_path / "llama", config))
    targets = device.backend.targets()
    only_head = {"lm_head": targets["lm_head"]}
    head = read(str(lora.write(tmp_path / "head", lora.factors(only_head, seed=1))), targets)
    system = [3 + n * 7 % 250 for n in range(40)]
    prefixes = PrefixCache(1 << 24)
    adapters = {"changed again": [head, head], "by turns": [head, None, head, None]}[order]
    for round, adapter in enumerate([*adapters, *adapters]):
        one = Asked([*system, *range(20 + round, 30 + round)], GREEDY, tokens=6, adapter=adapter)
        alone = Asked(list(one.prompt), GREEDY, tokens=6, adapter=adapter)
        device.answer([one], prefixes=prefixes)
        assert round < 2 or device.backend.batches[0].fused
        device.answer([alone])
        assert one.got == alone.got


def test_it_says_nothing_of_how_long_chunks_and_rows_take(tmp_path: Path) -> None:
    engine = backend(make(tmp_path / "llama", FAMILIES["llama, plain cache"]))
    prompt = list(range(3, 40))
    engine.open(Opening(1, prompt, 0, None, GREEDY, len(prompt)))
    results = []
    for batch in (
        Batch((1,), (Chunk(1, 0, prompt[:-1], True),)),
        Batch((1,), ()),
    ):
        step = engine.launch(batch)
        if batch.fused:
            assert engine.snapshot(1, len(prompt) - 1) is not None  # computed with the step, and not timed either
        step.begin()
        results.append(step.wait())
    fused, after = results
    assert (fused.prefill, fused.decode_seconds, after.prefill) == (NOTHING_READ, 0.0, NOTHING_READ)
    assert after.decode_seconds > 0
