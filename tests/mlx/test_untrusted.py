"""Checkpoints that bring code: it runs for nobody who has not said so of this model, and pickles are never read."""

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config.deployment import Source
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.errors import LoadFailed, SourceError
from appliance.models.pull import pull
from appliance.models.store import Store
from appliance.vocab.spec import EngineSpec
from tests import checkpoints
from tests.mlx.driving import SETTINGS

CODE = """
import pathlib
pathlib.Path({marker!r}).touch()
from mlx_lm.models.llama import Model, ModelArgs
from transformers import PreTrainedTokenizerFast
class EvilTokenizer(PreTrainedTokenizerFast): ...
class EvilConfig: ...
"""


class _Evil:
    """Unpickling it leaves the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """What the code of the checkpoint leaves where it runs."""
    before = set(sys.modules)
    yield tmp_path / "it-ran"
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


@pytest.fixture
def model(tmp_path: Path, marker: Path) -> Path:
    """A checkpoint that works, with the code beside it."""
    directory = checkpoints.tiny_vocab_llama(tmp_path / "m")
    (directory / "evil.py").write_text(CODE.format(marker=str(marker)))
    return directory


def told(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def load(directory: Path, trust: bool) -> None:
    spec = EngineSpec(backend="mlx", path=str(directory), trust_remote_code=trust)
    MlxBackend().load(spec, SETTINGS, lambda phase, part: None)


NAMED: dict[str, Callable[[Path], None]] = {
    "as the architecture": lambda at: told(at / "config.json", model_file="evil.py"),
    "as transformers' architecture": lambda at: told(
        at / "config.json", auto_map={"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.Model"}
    ),
    "as an architecture nobody knows": lambda at: told(
        at / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.EvilConfig"}
    ),
    "as the tokenizer": lambda at: told(
        at / "tokenizer_config.json", tokenizer_class="EvilTokenizer",
        auto_map={"AutoTokenizer": [None, "evil.EvilTokenizer"]},
    ),
    "outside of the checkpoint": lambda at: told(at / "config.json", model_file="../m/evil.py"),
}  # fmt: skip
TRUSTED = ("as the architecture", "as the tokenizer")


@pytest.mark.parametrize("name", NAMED.values(), ids=NAMED)
def test_code_of_a_checkpoint_does_not_run(model: Path, marker: Path, name: Callable[[Path], None]) -> None:
    name(model)
    for attempt in (lambda: load(model, trust=False), lambda: PromptTokenizer(model, trust_remote_code=False)):
        try:
            attempt()
        except LoadFailed as failed:
            assert failed.permanent
            assert str(model) not in failed.message, "clients see this"
        assert not marker.exists()


@pytest.mark.parametrize("name", [NAMED[n] for n in TRUSTED], ids=TRUSTED)
def test_it_runs_for_a_model_that_is_trusted(model: Path, marker: Path, name: Callable[[Path], None]) -> None:
    name(model)
    try:
        load(model, trust=True)
    finally:
        assert marker.exists()


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.pt", "weights.pth", "model.ckpt"])
def test_a_checkpoint_of_pickles_is_refused_and_not_read(
    model: Path, marker: Path, tmp_path: Path, weights: str
) -> None:
    (model / "model.safetensors").unlink()
    (model / weights).write_bytes(pickle.dumps(_Evil(marker)))
    with pytest.raises(SourceError, match=f"only {weights}; convert it to safetensors first"):
        pull(Source("path", str(model), str(model)), Store(tmp_path / "store"))
    with pytest.raises(LoadFailed) as failed:
        load(model, trust=True)
    assert (failed.value.permanent, marker.exists()) == (True, False)


def test_pickles_beside_weights_are_not_read(model: Path, marker: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "model.npz"):
        (model / name).write_bytes(pickle.dumps(_Evil(marker)))
    load(model, trust=False)
    assert not marker.exists()
