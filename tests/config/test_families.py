"""The shipped families, and how a checkpoint finds its own."""

import re

import pytest

from appliance.config import load, sources
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Family
from appliance.config.family import GENERIC, FamilyFile, Match, recognise
from appliance.config.problem import Rejected
from appliance.text import dialects, reasoning
from appliance.vocab.request import SamplingPatch
from tests.config.golden import checkpoint

FAMILIES = load.families()
CHATML = "{{'<|im_start|>' + message['role'] + '<|im_end|>'}}"
CATALOGUE = [(short, source) for file in FAMILIES.values() for short, source in file.catalogue.items()]


def chatml(model_type: str, words: str) -> Checkpoint:
    return checkpoint(model_type=model_type, template=CHATML + words)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_names_formats_that_exist(name: str) -> None:
    family = FAMILIES[name].family
    assert dialects.find(family.tool_dialect) is not None
    assert reasoning.find(family.reasoning_dialect) is not None


def test_there_is_a_family_for_the_rest_and_nothing_matches_it() -> None:
    generic = FAMILIES[GENERIC]
    assert generic.family == Family("generic")
    assert generic.match.score(checkpoint()) == 0


@pytest.mark.parametrize(("short", "source"), CATALOGUE, ids=[short for short, _ in CATALOGUE])
def test_a_short_name_stands_for_a_source_that_is_pinned(short: str, source: str) -> None:
    parsed = sources.parse(source, "/", {})
    assert parsed.kind in ("hf", "pypi")
    assert parsed.kind == "pypi" or re.fullmatch("[0-9a-f]{40}", parsed.revision)


def test_a_short_name_stands_for_one_source() -> None:
    assert len({short for short, _ in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize(
    ("facts", "family"),
    [
        pytest.param(checkpoint(template=CHATML + "assistant named SmolLM"), "smollm2", id="smollm2"),
        pytest.param(checkpoint(), "llama3", id="llama 3"),
        pytest.param(checkpoint(template=CHATML), None, id="a llama with another template"),
        pytest.param(checkpoint(template=None), None, id="no template"),
        pytest.param(chatml("qwen2", "created by Alibaba Cloud"), "qwen2.5", id="qwen 2.5"),
        pytest.param(chatml("qwen3", "<tool_call> enable_thinking <think>"), "qwen3", id="qwen 3"),
        pytest.param(chatml("qwen3", "<tool_call>"), "qwen3-instruct-2507", id="qwen 3 that never thinks"),
        pytest.param(chatml("qwen3_moe", "<tool_call> <think>"), "qwen3-thinking-2507", id="qwen 3 that thinks"),
        pytest.param(chatml("qwen3_moe", "<tool_call> <function="), "qwen3-coder", id="qwen 3 coder"),
        pytest.param(checkpoint(model_type="gemma3_text", template="<start_of_turn>user"), "gemma3", id="gemma 3"),
        pytest.param(checkpoint(model_type="mistral", template="[INST] hello [/INST]"), "mistral", id="mistral"),
        pytest.param(checkpoint(model_type="zebra", repo="mlx-community/Qwen3-4B-4bit"), None, id="only the name"),
    ],
)
def test_a_checkpoint_is_recognised_by_what_it_says(facts: Checkpoint, family: str | None) -> None:
    found = recognise(facts, FAMILIES.values())
    assert (found.family.name if found else None) == family


@pytest.mark.parametrize(
    ("match", "score"),
    [
        (Match(), 0),
        (Match(repo=("*/Llama-*",)), 0),
        (Match(model_type=("llama",)), 100),
        (Match(model_type=("qwen3", "llama")), 100),
        (Match(model_type=("qwen3",), template_has=("<|eot_id|>",)), 0),
        (Match(architectures=("Other", "LlamaForCausalLM")), 100),
        (Match(template_has=("<|eot_id|>",)), 10),
        (Match(template_has=("<|eot_id|>", "<|start_header_id|>")), 20),
        (Match(template_has=("<|eot_id|>", "nothing like it")), 0),
        (Match(model_type=("llama",), repo=("*/Llama-*",)), 105),
        (Match(model_type=("llama",), repo=("*/Qwen-*",)), 0),
    ],
)
def test_all_given_groups_must_hold_and_more_asked_scores_more(match: Match, score: int) -> None:
    assert match.score(checkpoint(repo="meta/Llama-3.1-8B")) == score


def test_among_equals_the_name_decides_whatever_the_order() -> None:
    one, two = (FamilyFile(Family(name), Match(model_type=("llama",)), {}) for name in ("a", "b"))
    assert recognise(checkpoint(), [one, two]) == recognise(checkpoint(), [two, one])


def test_a_broken_family_file_says_where() -> None:
    with pytest.raises(Rejected) as rejected:
        load.family("family: x\nmatch: {repo: ['*/x']}\nstopp: {}\nsource: {card: none}\n", "x.yaml")
    assert [(p.code, p.line) for p in rejected.value.problems] == [("E106", 2), ("E102", 3)]


def test_no_sampling_is_shipped_without_the_card_it_comes_from() -> None:
    for name, text in load.family_texts():
        sampled = FAMILIES[name.removesuffix(".yaml")].family.sampling != SamplingPatch()
        assert not sampled or "card: https://" in text
