"""What a model directory says about itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.config.attention import Attention
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Source
from appliance.errors import SourceError
from appliance.models.inspect import inspect, inspect_source
from appliance.models.store import Store
from appliance.vocab.request import SamplingPatch
from tests.checkpoints import CHATML, tiny_vocab_llama


def _write(directory: Path, files: dict[str, Any]) -> Path:
    for name, content in ({"config.json": {"model_type": "m"}} | files).items():
        (directory / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


def test_a_whole_checkpoint(tmp_path: Path) -> None:
    model = tiny_vocab_llama(tmp_path / "m")
    assert inspect(model) == Checkpoint(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        template=CHATML,
        generation=SamplingPatch(),
        context=2048,
        repo=None,
        weight_bytes=(model / "model.safetensors").stat().st_size,
        attention=Attention(head_dim=16),
    )


def test_a_source_that_is_not_here_says_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", tmp_path / "hub")
    assert inspect_source(Source("path", str(tmp_path / "none"), "./none"), store) is None
    (tmp_path / "s.yaml").touch()
    assert inspect_source(Source("fake", str(tmp_path / "s.yaml"), "fake:s.yaml"), store) is None
    model = tiny_vocab_llama(tmp_path / "m")
    assert inspect_source(Source("path", str(model), "./m"), store) == inspect(model)


@pytest.mark.parametrize(
    ("files", "template"),
    [
        pytest.param(
            {"chat_template.jinja": "own", "tokenizer_config.json": {"chat_template": "c"}}, "own", id="file"),
        pytest.param({"chat_template.json": {"chat_template": "json"}}, "json", id="JSON file"),
        pytest.param({"tokenizer_config.json": {"chat_template": "c"}}, "c", id="tokenizer's"),
        pytest.param(
            {"tokenizer_config.json": {"chat_template": [
                {"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}},
            "t", id="the one for tools of several",
        ),
        pytest.param(
            {"tokenizer_config.json": {"chat_template": [
                {"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]}},
            "d", id="default of several",
        ),
        pytest.param(
            {"tokenizer_config.json": {"chat_template": [{"name": "rag", "template": "r"}]}}, None,
            id="none of several"),
        pytest.param({"tokenizer_config.json": {}}, None, id="none"),
        pytest.param({}, None, id="no tokenizer"),
    ],
)  # fmt: skip
def test_the_chat_template_is_found_where_loaders_look(
    files: dict[str, Any], template: str | None, tmp_path: Path
) -> None:
    assert inspect(_write(tmp_path, files)).template == template


@pytest.mark.parametrize(
    ("generation", "sampling"),
    [
        pytest.param({}, SamplingPatch(), id="nothing"),
        pytest.param(
            {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0, "repetition_penalty": 1.05},
            SamplingPatch(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0, repetition_penalty=1.05),
            id="everything",
        ),
        pytest.param({"temperature": None, "top_k": 20.0}, SamplingPatch(top_k=20), id="null and a whole float"),
        pytest.param({"eos_token_id": 2, "do_sample": True}, SamplingPatch(), id="other keys"),
    ],
)
def test_the_checkpoints_sampling_is_read(
    generation: dict[str, Any], sampling: SamplingPatch, tmp_path: Path
) -> None:
    assert inspect(_write(tmp_path, {"generation_config.json": generation})).generation == sampling


@pytest.mark.parametrize(
    ("config", "context"),
    [
        pytest.param({"max_position_embeddings": 4096}, 4096, id="usual"),
        pytest.param({"text_config": {"max_position_embeddings": 8192}}, 8192, id="of the text part"),
        pytest.param({"n_positions": 1024}, 1024, id="GPT-2's name"),
        pytest.param({}, None, id="not said"),
    ],
)
def test_the_context_is_found(config: dict[str, Any], context: int | None, tmp_path: Path) -> None:
    assert inspect(_write(tmp_path, {"config.json": {"model_type": "m"} | config})).context == context


def test_a_snapshot_of_the_hub_knows_its_repository(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--some-owner--Some-Model-4bit" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    assert inspect(_write(snapshot, {})).repo == "some-owner/Some-Model-4bit"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param({"config.json": "{"}, "config.json is not JSON", id="broken"),
        pytest.param({"config.json": [1]}, "holds a JSON list", id="list"),
        pytest.param({"config.json": {}}, "does not say its model_type", id="no model type"),
        pytest.param({"tokenizer_config.json": "nothing"}, "tokenizer_config.json is not JSON", id="tokenizer"),
        pytest.param({"generation_config.json": {"top_k": 1.5}}, "top_k is 1.5", id="half a k"),
        pytest.param({"generation_config.json": {"top_p": "0.9"}}, "top_p is '0.9'", id="text for a number"),
        pytest.param({"generation_config.json": {"top_p": True}}, "top_p is True", id="truth for a number"),
    ],
)
def test_a_bad_file_is_named(files: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        inspect(_write(tmp_path, files))
    assert words in caught.value.message


def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no config"):
        inspect(tmp_path)
