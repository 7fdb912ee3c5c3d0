"""How hard a model shall think, said in requests and in deploy files, in the words of its template."""

from pathlib import Path
from typing import Any

import pytest

from appliance.config import load
from appliance.config.effort import spoken
from appliance.config.sampling import decide, find
from appliance.vocab.request import GenerateRequest, SamplingPatch
from tests.config import golden

FAMILIES = load.families()


@pytest.mark.parametrize(
    ("family", "layer", "found"),
    [
        ("qwen3", {}, {}),
        ("qwen3", {"enable_thinking": False}, {"enable_thinking": False}),
        ("qwen3", {"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        ("qwen3", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        (
            "qwen3", {"reasoning_effort": "none", "enable_thinking": True},
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
        (
            "qwen3", {"reasoning_effort": "none", "enable_thinking": None},
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        ("gemma4", {"reasoning_effort": "low"}, {"reasoning_effort": "low", "enable_thinking": True}),
        ("gemma4", {"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
        ("deepseek-v3.1", {"enable_thinking": True}, {"thinking": True}),
        ("deepseek-v3.1", {"thinking": True}, {"thinking": True}),
        ("deepseek-v3.1", {"reasoning_effort": "medium"}, {"reasoning_effort": "medium", "thinking": True}),
        (
            "deepseek-v3.1", {"reasoning_effort": "medium", "enable_thinking": False},
            {"reasoning_effort": "medium", "thinking": False},
        ),
        ("deepseek-v4", {"reasoning_effort": "max"}, {"thinking": True, "reasoning_effort": "max"}),
        ("gpt-oss", {"reasoning_effort": "none"}, {"reasoning_effort": "low"}),
        ("gpt-oss", {"reasoning_effort": "medium"}, {"reasoning_effort": "medium"}),
        ("seed-oss", {"reasoning_effort": "none"}, {"reasoning_effort": "none", "thinking_budget": 0}),
        ("generic", {"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
    ],
)  # fmt: skip
def test_a_layer_in_the_words_of_a_family(family: str, layer: dict[str, Any], found: dict[str, Any]) -> None:
    assert spoken(FAMILIES[family].family, [layer]) == [found]


def test_only_the_strongest_effort_counts() -> None:
    layers = [{"reasoning_effort": "high"}, {"x": 1}, {"reasoning_effort": "none"}]
    assert spoken(FAMILIES["qwen3"].family, layers) == layers


DEPLOY = """\
version: 1
profiles:
  quick: {template: {reasoning_effort: none}}
models:
  m: {source: qwen3-4b, template: {enable_thinking: true}}
  v: {source: "hf:x/v", family: deepseek-v3.1}
aliases:
  fast: {model: m, profile: quick}
"""


@pytest.mark.parametrize(
    ("name", "asked", "thinks", "temperature"),
    [
        ("m", {}, True, 0.6),
        ("m", {"reasoning_effort": "none"}, False, 0.7),
        ("fast", {}, False, 0.7),
        ("fast", {"enable_thinking": True}, True, 0.6),
        ("fast", {"reasoning_effort": "high"}, True, 0.6),
    ],
)
def test_a_stronger_layer_s_effort_wins_and_chooses_the_mode(
    here: Path, name: str, asked: dict[str, Any], thinks: bool, temperature: float
) -> None:
    deployment = golden.read(DEPLOY)
    request = GenerateRequest(model=name, messages=(), sampling=SamplingPatch(), template=asked)
    decided = decide(deployment, find(deployment, name), request, seed=1)
    assert decided.template["enable_thinking"] is thinks
    assert decided.sampling.temperature == temperature


def test_the_switch_of_a_request_reaches_a_template_that_calls_it_otherwise(here: Path) -> None:
    deployment = golden.read(DEPLOY)
    request = GenerateRequest(model="v", messages=(), sampling=SamplingPatch(), template={"enable_thinking": True})
    decided = decide(deployment, find(deployment, "v"), request, seed=1)
    assert decided.template == {"thinking": True}
