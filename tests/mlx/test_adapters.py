"""Adapters change what a model says as if its weights were changed; rows with different ones never mix."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from appliance.engine.adapter import Adapter, read
from appliance.vocab.request import Sampling
from appliance.vocab.spec import Speculative
from tests import lora
from tests.mlx.families import FAMILIES, make
from tests.mlx.speculating import Asked, Device
from tests.mlx.test_batch import SAMPLINGS
from tests.mlx.test_speculation import prompt

FAMILY_NAMES = ["llama, plain cache", "gemma3, sliding window", "mamba, state only"]


@pytest.fixture(scope="module", params=FAMILY_NAMES, ids=FAMILY_NAMES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("base"), FAMILIES[request.param])


@pytest.fixture(scope="module")
def device(directory: Path) -> Device:
    return Device(directory)


@pytest.fixture(scope="module")
def adapters(device: Device, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Adapter]:
    targets = device.backend.targets()
    some = dict(list(targets.items())[::2])
    folder = tmp_path_factory.mktemp("adapters")
    return {
        "one": read(str(lora.write(folder / "one", lora.factors(targets, seed=1))), targets),
        "other": read(str(lora.write(folder / "other", lora.factors(some, seed=2, rank=2), rank=2)), targets),
        "peft": read(str(lora.write_peft(folder / "peft", lora.factors(targets, seed=1))), targets),
    }


def alone(device: Device, asked: Asked) -> list[int]:
    one = replace(asked, at=0, got=[], sampled=[], events=[])
    device.answer([one])
    return one.got


def test_an_adapted_model_says_what_one_with_changed_weights_says(
    directory: Path, device: Device, adapters: dict[str, Adapter], tmp_path: Path
) -> None:
    weights = mx.load(str(directory / "model.safetensors"))
    for path, (inputs, outputs) in device.backend.targets().items():
        pair = lora.factors(device.backend.targets(), seed=1)
        a, b = (mx.array(pair[f"{path}.lora_{side}"]) for side in "ab")
        assert (a.shape[0], b.shape[1]) == (inputs, outputs)
        weights[f"{path}.weight"] = weights[f"{path}.weight"] + 2.0 * (a @ b).T
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    mx.save_safetensors(str(tmp_path / "model.safetensors"), weights, metadata={"format": "mlx"})
    changed = Device(tmp_path)
    for sampling in SAMPLINGS:
        asked = Asked(prompt(1), sampling)
        expected = alone(changed, asked)
        assert alone(device, replace(asked, adapter=adapters["one"])) == expected
        assert alone(device, replace(asked, adapter=adapters["peft"])) == expected
        assert alone(device, asked) != expected


@pytest.mark.parametrize("stagger", [0, 2], ids=["all at once", "joining"])
def test_rows_with_different_adapters_say_each_what_they_say_alone(
    device: Device, adapters: dict[str, Adapter], stagger: int
) -> None:
    chosen = [None, adapters["one"], adapters["other"], None, adapters["one"], adapters["other"]]
    asked = [
        Asked(prompt(7), SAMPLINGS[n % len(SAMPLINGS)], 10 + n, adapter=adapter, at=stagger * n)
        for n, adapter in enumerate(chosen)
    ]
    expected = [alone(device, one) for one in asked]
    device.answer(asked)
    assert [one.got for one in asked] == expected


def test_a_prefix_computed_with_an_adapter_serves_only_that_adapter(
    device: Device, adapters: dict[str, Adapter]
) -> None:
    first = Asked(prompt(3, 60), Sampling(temperature=0), 6, adapter=adapters["one"])
    others = [
        Asked(first.prompt, first.sampling, 6, adapter=adapter, at=40 + 20 * n)
        for n, adapter in enumerate([None, adapters["other"], adapters["one"]])
    ]
    expected = [alone(device, one) for one in (first, *others)]
    device.answer([first, *others], prefix_bytes=1 << 24)
    assert [one.got for one in (first, *others)] == expected
    cached = [one.events[-1].usage.cached_tokens for one in others]  # type: ignore[union-attr]
    assert cached[:2] == [0, 0]
    assert cached[2] > 0


def test_guesses_are_verified_with_the_rows_own_adapter(tmp_path: Path) -> None:
    device = Device(make(tmp_path / "base", FAMILIES["llama, plain cache"]))
    targets = device.backend.targets()
    adapter = read(str(lora.write(tmp_path / "one", lora.factors(targets, seed=1))), targets)
    asked = [Asked(prompt(5), Sampling(temperature=0), 20, adapter=chosen) for chosen in (None, adapter)]
    expected = [alone(device, one) for one in asked]
    guessed = [replace(one, foretold=told) for one, told in zip(asked, expected, strict=True)]
    speculation = device.answer(guessed, Speculative(kind="lookup", depth=8))
    assert [one.got for one in guessed] == expected
    assert speculation.right > 0
