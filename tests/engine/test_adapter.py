"""Which adapters fit a model, and what is said of the others."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from appliance.engine.adapter import Adapters, read
from appliance.errors import BadRequest
from tests import lora

TARGETS = {"model.layers.0.q_proj": (8, 6), "model.layers.1.q_proj": (8, 6)}
ONE = {"model.layers.0.q_proj": (8, 6)}


@pytest.mark.parametrize("write", [lora.write, lora.write_peft], ids=["mlx-lm", "peft"])
def test_one_that_fits_is_described(write: Callable[..., Path], tmp_path: Path) -> None:
    adapter = read(str(write(tmp_path, lora.factors(ONE), scale=3.0)), TARGETS)
    assert (adapter.rank, adapter.scale) == (4, 3.0)
    assert {(factor.path, factor.side) for factor in adapter.factors} == {
        (path, side) for path in ONE for side in "ab"
    }


def test_a_stabilised_scale_is_divided_by_the_root_of_the_rank(tmp_path: Path) -> None:
    directory = lora.write_peft(tmp_path, lora.factors(ONE), scale=2.0, use_rslora=True)
    assert read(str(directory), TARGETS).scale == 4.0


def zeros(name: str, *shape: int) -> dict[str, np.ndarray]:
    return {f"model.layers.0.{name}": np.zeros(shape, np.float32)}


UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no such directory": (lambda at: None, "has no adapter_config.json"),
    "not described": (lambda at: (at.mkdir(), (at / "adapters.safetensors").touch()), "has no adapter_config.json"),
    "no weights": (lambda at: (lora.write(at, {}) / "adapters.safetensors").unlink(), "has neither"),
    "described in no JSON": (lambda at: (lora.write(at, {}) / "adapter_config.json").write_text("{"), "is not JSON"),
    "described in a list": (lambda at: (lora.write(at, {}) / "adapter_config.json").write_text("[]"), "no object"),
    "no parameters": (lambda at: lora.write(at, {}, lora_parameters=None), "no lora_parameters"),
    "no rank": (lambda at: lora.write(at, {}, rank=0), "`rank` is no positive number: 0"),
    "no scale": (lambda at: lora.write(at, {}, scale="big"), "`scale` is no number: big"),
    "dora": (lambda at: lora.write(at, {}, fine_tune_type="dora"), "fine_tune_type dora"),
    "all weights": (lambda at: lora.write(at, {}, fine_tune_type="full"), "fine_tune_type full"),
    "another of peft's": (lambda at: lora.write_peft(at, {}, peft_type="IA3"), "made with IA3"),
    "peft's dora": (lambda at: lora.write_peft(at, {}, use_dora=True), "made with DORA"),
    "ranks of its own": (lambda at: lora.write_peft(at, {}, rank_pattern={"q": 2}), "ranks or scales of their own"),
    "it changes nothing": (lambda at: lora.write(at, {}), "changes no layer"),
    "a layer that is not there": (
        lambda at: lora.write(at, lora.factors({"model.layers.9.q_proj": (8, 6)})), "no linear layer model.layers.9"),
    "another width": (lambda at: lora.write(at, lora.factors({**ONE, "model.layers.0.q_proj": (9, 6)})),
                      "lora_a has the shape [9, 4], not [8, 4]"),
    "another rank than it says": (lambda at: lora.write(at, lora.factors(ONE, rank=2)), "not [8, 4]"),
    "peft's other way round": (lambda at: lora.write_peft(at, lora.factors(ONE, rank=2)), "[2, 8], not [4, 8]"),
    "half a pair": (lambda at: lora.write(at, zeros("q_proj.lora_a", 8, 4)), "has no factor b"),
    "something else": (lambda at: lora.write(at, zeros("q_proj.m", 6)), "is no factor"),
    "weights that are none": (
        lambda at: (lora.write(at, {}) / "adapters.safetensors").write_bytes(b"x" * 99), "is no safetensors file"),
    "weights cut short": (lambda at: cut(lora.write(at, lora.factors(ONE)) / "adapters.safetensors"), "cut short"),
}  # fmt: skip


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


@pytest.mark.parametrize("case", UNFIT)
def test_one_that_does_not_fit_is_refused_with_its_place_and_the_reason(case: str, tmp_path: Path) -> None:
    make, words = UNFIT[case]
    directory = tmp_path / "adapter"
    make(directory)
    with pytest.raises(BadRequest) as refused:
        read(str(directory), TARGETS)
    assert str(directory) in refused.value.message
    assert words in refused.value.message
    assert refused.value.param == "adapter"


def test_a_model_without_linear_layers_takes_none(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no linear layers"):
        read(str(lora.write(tmp_path, lora.factors(ONE))), {})


def test_one_that_changes_is_read_again_and_is_another(tmp_path: Path) -> None:
    adapters = Adapters(TARGETS)
    first = adapters.find(str(lora.write(tmp_path, lora.factors(ONE, seed=1))))
    assert adapters.find(str(tmp_path)) is first
    lora.write(tmp_path, lora.factors({**ONE, "model.layers.1.q_proj": (8, 6)}, seed=1))
    second = adapters.find(str(tmp_path))
    assert second.name != first.name
    (tmp_path / "adapter_config.json").write_text(json.dumps([]))
    with pytest.raises(BadRequest):
        adapters.find(str(tmp_path))


class Replacing(dict[str, tuple[int, int]]):
    """Layers of a model; while an adapter is held against them, its files are replaced, `times` at most."""

    def __init__(self, directory: Path, times: int) -> None:
        super().__init__(TARGETS)
        self.directory, self.times = directory, times

    def __contains__(self, path: object) -> bool:
        if self.times:
            self.times -= 1
            lora.write(self.directory, lora.factors(ONE, seed=self.times), scale=10.0 + self.times)
        return super().__contains__(path)


def test_one_that_is_replaced_while_it_is_read_is_the_old_or_the_new_never_of_both(tmp_path: Path) -> None:
    lora.write(tmp_path, lora.factors(ONE, seed=9), scale=3.0)
    found = Adapters(Replacing(tmp_path, 1)).find(str(tmp_path))
    assert found.scale == 10.0
    assert not found.replaced


def test_one_that_is_replaced_again_and_again_is_refused_for_now(tmp_path: Path) -> None:
    lora.write(tmp_path, lora.factors(ONE))
    with pytest.raises(BadRequest, match="is being replaced"):
        Adapters(Replacing(tmp_path, 1 << 30)).find(str(tmp_path))
