"""Loading: the dtype rule, and what is said of files that cannot be loaded."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model, quantize_model, save_model

from appliance.engine.mlx.load import load, on_cpu
from appliance.errors import LoadFailed
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSpec
from tests.mlx.driving import Job, backend, run


def spec(directory: Path, dtype: str = "auto") -> EngineSpec:
    return EngineSpec(backend="mlx", path=str(directory), dtype=dtype)  # type: ignore[arg-type]


@pytest.fixture
def quantized(tiny_vocab_llama: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "quantized"
    shutil.copytree(tiny_vocab_llama, copy)
    model, config = load_model(copy)
    model, config = quantize_model(model, config, group_size=32, bits=8)
    (copy / "model.safetensors").unlink()
    save_model(copy, model)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.skipif(not on_cpu(), reason="the rule for the CPU")
@pytest.mark.parametrize(
    ("dtype", "expected"), [("auto", "float32"), ("float32", "float32"), ("bfloat16", "bfloat16")]
)
def test_on_cpu_weights_lose_their_quantization(quantized: Path, dtype: str, expected: str) -> None:
    loaded = load(spec(quantized, dtype), lambda phase, fraction: None)
    kinds = {str(value.dtype).removeprefix("mlx.core.") for _, value in tree_flatten(loaded.model.parameters())}
    assert kinds == {expected}
    assert loaded.dtype == expected


def test_a_quantized_checkpoint_answers_like_its_dequantized_weights(quantized: Path) -> None:
    model, _ = load_model(quantized)
    prompt = list(range(3, 40))
    theirs = model(mx.array([prompt]))[0, -1].argmax().item()
    job = Job(1, prompt, Sampling(temperature=0), tokens=1)
    run(backend(quantized), [job])
    assert job.text == [theirs]


def test_progress_ends_at_the_whole(tiny_vocab_llama: Path) -> None:
    heard: list[tuple[str, float]] = []
    load(spec(tiny_vocab_llama), lambda phase, fraction: heard.append((phase, fraction)))
    assert heard[0] == ("reading", 0.0)
    assert heard[-1] == ("weights", 1.0)


def _edit(name: str, change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        data = json.loads((directory / name).read_text())
        change(data)
        (directory / name).write_text(json.dumps(data))

    return apply


def _truncate(directory: Path) -> None:
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


BROKEN: dict[str, Callable[[Path], None]] = {
    "no config.json": lambda d: (d / "config.json").unlink(),
    "no weights": lambda d: (d / "model.safetensors").unlink(),
    "config.json is not JSON": lambda d: (d / "config.json").write_text("{"),
    "an architecture nobody knows": _edit("config.json", lambda c: c.update(model_type="wizard9")),
    "a missing architecture": _edit("config.json", lambda c: c.pop("model_type")),
    "wrong shapes": _edit("config.json", lambda c: c.update(hidden_size=128)),
    "weights cut short": _truncate,
    "weights that are not safetensors": lambda d: (d / "model.safetensors").write_bytes(b"hello world" * 100),
    "code of its own": _edit("config.json", lambda c: c.update(model_file="evil.py")),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=list(BROKEN))
def test_a_damaged_checkpoint_is_refused_by_name(
    tiny_vocab_llama: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copy = tmp_path / "damaged-model"
    shutil.copytree(tiny_vocab_llama, copy)
    damage(copy)
    with pytest.raises(LoadFailed) as caught:
        load(spec(copy), lambda phase, fraction: None)
    assert "damaged-model" in caught.value.message or "weights" in caught.value.message
