"""Adapters change what a model says as if its weights were changed; rows with different ones never mix."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from appliance.engine.adapter import Adapter, Adapters, read
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.prefix_cache import PrefixCache
from appliance.errors import EngineFault
from appliance.vocab.request import Sampling
from appliance.vocab.spec import Speculative
from tests import lora
from tests.mlx.driving import backend, begin, say
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
    assert speculation.accepted > 0


# ---- adapters whose files are replaced
PROMPT = prompt(9)


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> MlxBackend:
    return backend(make(tmp_path_factory.mktemp("base"), FAMILIES["llama, plain cache"]))


def written(engine: MlxBackend, at: Path, seed: int) -> Path:
    return lora.write(at, lora.factors(engine.targets(), seed=seed))


def solo(engine: MlxBackend, adapter: Adapter | None, count: int = 8) -> list[int]:
    begin(engine, 0, PROMPT, adapter)
    (said,) = say(engine, [0], count)
    engine.close(0)
    return said


def test_rows_run_on_with_what_they_began_with_beside_those_that_began_after_it_was_replaced(
    engine: MlxBackend, tmp_path: Path
) -> None:
    found = Adapters(engine.targets())
    at = tmp_path / "one"
    engine.keep_adapters([str(at)])
    old = found.find(str(written(engine, at, 1)))
    before, one = solo(engine, old), engine.adapter_bytes()
    begin(engine, 1, PROMPT, old)
    (first,) = say(engine, [1], 2)
    new = found.find(str(written(engine, at, 2)))
    begin(engine, 2, PROMPT, new)
    rest, after = say(engine, [1, 2], 6)
    assert [*first, *rest] == before
    engine.close(2)
    assert after == solo(engine, new)[:6]
    assert after != before[:6]
    assert engine.adapter_bytes() == 2 * one
    engine.close(1)
    begin(engine, 1, PROMPT, old)  # it was made to go and comes back
    assert say(engine, [1], 8) == [before]
    engine.close(1)
    del old
    assert engine.adapter_bytes() == one
    assert solo(engine, new)[:6] == after


def test_one_that_was_replaced_before_its_answer_begins_is_never_mixed(engine: MlxBackend, tmp_path: Path) -> None:
    found = Adapters(engine.targets())
    old = found.find(str(written(engine, tmp_path, 1)))
    written(engine, tmp_path, 2)
    with pytest.raises(EngineFault, match="was replaced before this answer could begin"):
        begin(engine, 1, PROMPT, old)
    assert engine.adapter_bytes() == 0
    assert solo(engine, found.find(str(tmp_path))) != solo(engine, None)


def test_those_in_memory_are_counted_and_those_that_nobody_may_ask_for_go(engine: MlxBackend, tmp_path: Path) -> None:
    found = Adapters(engine.targets())
    names = ["a", "b"]
    made = [found.find(str(written(engine, tmp_path / name, seed))) for seed, name in enumerate(names)]
    engine.keep_adapters([str(tmp_path / name) for name in names])
    stored = [mx.load(one.file) for one in made]
    bytes = [sum(array.nbytes for array in arrays.values()) for arrays in stored]
    said = [solo(engine, one) for one in made]
    assert engine.adapter_bytes() == sum(bytes)
    begin(engine, 1, PROMPT, made[0])
    engine.keep_adapters([str(tmp_path / "b")])
    assert engine.adapter_bytes() == sum(bytes)
    assert say(engine, [1], 8) == [said[0]]
    engine.close(1)
    assert engine.adapter_bytes() == bytes[1]
    assert [solo(engine, one) for one in made] == said


def test_a_prefix_of_one_that_was_replaced_serves_nobody_else(device: Device, tmp_path: Path) -> None:
    found = Adapters(device.backend.targets())
    old = found.find(str(written(device.backend, tmp_path, 1)))
    first = Asked(prompt(3, 60), Sampling(temperature=0), 6, adapter=old)
    expected = alone(device, first)
    kept = PrefixCache(1 << 24)
    device.answer([first], prefixes=kept)
    new = found.find(str(written(device.backend, tmp_path, 2)))
    second = Asked(first.prompt, first.sampling, 6, adapter=new)
    changed = alone(device, second)
    assert len(kept)
    device.answer([second], prefixes=kept)
    assert first.got == expected
    assert second.got == changed != expected
    assert second.events[-1].usage.cached_tokens == 0  # type: ignore[union-attr]
