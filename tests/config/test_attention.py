"""Which forms of keys and values a checkpoint allows, and how a file that asks for another is refused."""

from pathlib import Path
from typing import Any

import pytest

from appliance.config.attention import Attention, attention, misfit, unwindowed
from appliance.config.problem import Rejected
from appliance.vocab.spec import KvForm
from tests.checkpoints import tiny_config, tiny_vocab_llama, write_json
from tests.process.site import Site

PLAIN = {"model_type": "llama", "head_dim": 64}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(PLAIN, Attention(head_dim=64), id="plain"),
        pytest.param(
            {"hidden_size": 64, "num_attention_heads": 4}, Attention(head_dim=16), id="heads share the width"
        ),
        pytest.param({}, Attention(), id="nothing said"),
        pytest.param({"text_config": PLAIN}, Attention(head_dim=64), id="nested"),
        pytest.param(
            {"layer_types": ["full_attention", "sliding_attention"]}, Attention(window=True), id="some slide"
        ),
        pytest.param({"layer_types": ["full_attention", "conv"]}, Attention(), id="a state is no window"),
        pytest.param({"sliding_window_pattern": 6}, Attention(window=True), id="a pattern"),
        pytest.param({"model_type": "gpt_oss"}, Attention(window=True), id="known to slide"),
        pytest.param({"model_type": "mistral", "sliding_window": 4096}, Attention(), id="a window that is not used"),
        pytest.param({"kv_lora_rank": 512}, Attention(latent=True), id="compressed"),
    ],
)
def test_a_config_tells_its_attention(config: dict[str, Any], expected: Attention) -> None:
    assert attention(config) == expected


@pytest.mark.parametrize(
    ("kind", "form", "words"),
    [
        pytest.param(Attention(head_dim=64), KvForm(8), None, id="fits"),
        pytest.param(Attention(), KvForm(8), None, id="nothing known"),
        pytest.param(Attention(window=True), KvForm(8), "sliding window", id="slides"),
        pytest.param(Attention(latent=True), KvForm(8), "MLA", id="compressed"),
        pytest.param(Attention(state=True), KvForm(8), "state", id="none at all"),
        pytest.param(Attention(head_dim=80), KvForm(8), "heads of 80", id="a group that does not divide"),
        pytest.param(Attention(head_dim=96), KvForm(8, 32), None, id="one that does"),
    ],
)
def test_a_form_fits_or_it_is_said_why_not(kind: Attention, form: KvForm, words: str | None) -> None:
    why = misfit(kind, form)
    assert (why is None) if words is None else (why is not None and words in why)


def test_only_a_model_that_looks_back_at_everything_can_be_given_a_window() -> None:
    assert unwindowed(Attention()) is None
    assert all(unwindowed(kind) for kind in (Attention(window=True), Attention(latent=True), Attention(state=True)))


@pytest.mark.parametrize(
    ("config", "model", "cache", "place", "words"),
    [
        pytest.param({"layer_types": ["sliding"]}, {"kv": {"bits": 8}}, {}, "models.m.kv", "sliding", id="kv"),
        pytest.param({"kv_lora_rank": 4}, {"kv": {"bits": 8}}, {}, "models.m.kv", "MLA", id="latent"),
        pytest.param({}, {"kv": {"bits": 8, "group": 32}}, {}, "models.m.kv", "groups of 32", id="group"),
        pytest.param(
            {"layer_types": ["sliding_attention"]}, {"cache": "small"}, {"small": {"prefix": {"bits": 8}}},
            "models.m.cache", "8 bits", id="kept prefixes",
        ),
        pytest.param({"kv_lora_rank": 4}, {"max_kv": "1k"}, {}, "models.m.max_kv", "MLA", id="a window"),
        pytest.param({"model_type": "mamba2"}, {"kv": {"bits": 8}}, {}, "models.m.kv", "state", id="a state's bits"),
        pytest.param({"model_type": "rwkv7"}, {"max_kv": "1k"}, {}, "models.m.max_kv", "state", id="its window"),
        pytest.param(
            {"head_dim": 64}, {"max_kv": "1k", "kv": {"bits": 8}}, {}, "models.m.max_kv", "quantized", id="both"
        ),
    ],
)  # fmt: skip
def test_a_file_that_asks_for_what_cannot_be_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any], model: dict[str, Any], cache: dict[str, Any], place: str, words: str
) -> None:
    tiny_vocab_llama(tmp_path / "model")
    write_json(tmp_path / "model" / "config.json", {**tiny_config(300), **config})
    with pytest.raises(Rejected) as raised:
        Site(tmp_path).deployment({"m": {"source": "./model", **model}}, cache=cache)
    (problem,) = (found for found in raised.value.problems if found.code == "E225")
    assert problem.path == place
    assert words in problem.message


def test_what_fits_is_in_the_deployment(tmp_path: Path) -> None:
    tiny_vocab_llama(tmp_path / "model")
    write_json(tmp_path / "model" / "config.json", {**tiny_config(300), "head_dim": 64})
    cache = {"small": {"prefix": {"bits": 4, "group": 32}}}
    models = {
        "m": {"source": "./model", "kv": {"bits": 8, "from_token": 4096}, "cache": "small"},
        "w": {"source": "./model", "max_kv": "1k"},
    }
    found = Site(tmp_path).deployment(models, cache=cache).models
    assert (found["m"].kv, found["m"].cache.stored, found["m"].max_kv) == (KvForm(8, 64, 4096), KvForm(4, 32), None)
    assert found["w"].max_kv == 1024
    assert found["w"].fingerprint != found["m"].fingerprint
