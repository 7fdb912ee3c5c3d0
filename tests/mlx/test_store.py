"""Snapshots written down and made again: the same tokens come out of them, for every kind of cache."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from appliance.engine import disk_entry
from appliance.engine.disk_entry import BrokenEntry
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.kv import KVSnapshot
from appliance.vocab.request import Sampling
from appliance.vocab.spec import DiskSettings
from tests.mlx.driving import Job, arrays, backend, run
from tests.mlx.families import FAMILIES, make
from tests.mlx.test_batch import prefill, prompts

DISK = DiskSettings(path="/nowhere", bytes=1, ttl=1, key="weights")


@pytest.fixture(scope="module", params=FAMILIES, ids=list(FAMILIES))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("family"), FAMILIES[request.param])


def through_a_file(engine: MlxBackend, folder: Path, snapshot: KVSnapshot) -> KVSnapshot:
    frozen = engine.freezer().freeze(snapshot)
    assert frozen is not None
    entry = disk_entry.write(folder / "key", "", tuple(range(snapshot.length)), snapshot.shortest, frozen)
    disk_entry.verify(entry.folder)
    return engine.freezer().thaw(entry.arrays, disk_entry.read(entry.folder).layout, entry.length)


def test_a_snapshot_from_a_file_is_the_one_that_was_written(checkpoint: Path, tmp_path: Path) -> None:
    compare(backend(checkpoint), tmp_path)


def test_bfloat16_is_written_as_it_is(tmp_path: Path) -> None:
    compare(backend(make(tmp_path / "model", FAMILIES["llama, plain cache"]), "bfloat16"), tmp_path)


def compare(engine: MlxBackend, tmp_path: Path) -> None:
    prompt = prompts(1, seed=7)[0] * 3
    (stored,) = prefill(engine, 1, prompt, len(prompt))
    assert isinstance(stored, KVSnapshot)
    back = through_a_file(engine, tmp_path, stored)
    assert (back.length, back.shortest, back.nbytes) == (stored.length, stored.shortest, stored.nbytes)
    for old, new in zip(arrays(stored), arrays(back), strict=True):
        assert old.dtype == new.dtype
        assert mx.array_equal(old, new)


def test_a_prompt_goes_on_from_a_file_as_if_it_had_been_computed(checkpoint: Path, tmp_path: Path) -> None:
    engine = backend(checkpoint)
    prompt = prompts(1, seed=7)[0] * 3
    cold = Job(1, prompt, Sampling(temperature=0))
    run(engine, [cold])
    half = len(prompt) // 2
    (stored,) = prefill(engine, 2, prompt[:half], half)
    assert isinstance(stored, KVSnapshot)
    back = through_a_file(engine, tmp_path, stored)
    for id in (3, 4):
        warm = Job(id, prompt, Sampling(temperature=0), snapshot=back, computed=half)
        run(engine, [warm])
        assert warm.text == cold.text


@pytest.mark.parametrize("layout", [[["KVCache", [{"array": "7"}, {"array": "8"}, 3]]], [["Unknown", []]], [[]]])
def test_a_layout_its_arrays_do_not_fit_is_a_broken_entry(checkpoint: Path, tmp_path: Path, layout: Any) -> None:
    file = tmp_path / "kv.safetensors"
    mx.save_safetensors(str(file), {"0": mx.zeros((1,))})
    with pytest.raises(BrokenEntry):
        backend(checkpoint).freezer().thaw(file, layout, 3)


def test_the_key_names_the_files_and_the_form_of_the_numbers(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", FAMILIES["llama, plain cache"])
    keys = {backend(folder, dtype).freezer().key(DISK) for dtype in ("float32", "bfloat16")}
    (folder / "generation_config.json").write_text("{}")
    keys.add(backend(folder).freezer().key(DISK))
    assert len(keys) == 3
