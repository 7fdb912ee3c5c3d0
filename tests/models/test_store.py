"""Where a source's files are found, without a look at the network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.config.deployment import Source
from appliance.models.store import Store, default_root, hub_cache
from tests.checkpoints import tiny_vocab_llama

COMMIT = "a" * 40
REPOSITORY = Source("hf", "owner/name", "hf:owner/name")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models", tmp_path / "hub")


@pytest.fixture
def snapshot(store: Store) -> Path:
    repository = store.hub / "models--owner--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return tiny_vocab_llama(repository / "snapshots" / COMMIT)


def test_a_directory_is_itself(store: Store, tmp_path: Path) -> None:
    model = tiny_vocab_llama(tmp_path / "m")
    source = Source("path", str(model), "./m")
    assert store.locate(source) == model
    (model / "config.json").unlink()
    assert store.locate(source) is None


def test_a_script_is_itself(store: Store, tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    assert store.locate(Source("fake", str(script), "fake:s.yaml")) is None
    script.write_text("")
    assert store.locate(Source("fake", str(script), "fake:s.yaml")) == script


def test_a_repository_is_found_in_the_hubs_cache(store: Store, snapshot: Path) -> None:
    assert store.locate(REPOSITORY) == snapshot
    assert store.locate(Source("hf", "owner/name", "", COMMIT)) == snapshot
    assert store.locate(Source("hf", "owner/name", "", "v2")) is None
    assert store.locate(Source("hf", "owner/other", "")) is None


def test_a_repository_with_a_shard_missing_is_not_here(store: Store, snapshot: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    assert store.locate(REPOSITORY) is None
    (snapshot / "model-2.safetensors").write_bytes(b"")
    assert store.locate(REPOSITORY) == snapshot


def test_a_repository_whose_download_was_broken_off_is_not_here(store: Store, snapshot: Path) -> None:
    marker = store.unfinished(REPOSITORY)
    marker.parent.mkdir(parents=True)
    marker.touch()
    assert store.locate(REPOSITORY) is None


def test_a_converted_file_is_found_until_the_file_changes(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    source = Source("gguf", str(file), "./m.gguf")
    assert store.locate(source) is None
    file.write_bytes(b"one")
    directory = store.converted(source)
    assert directory is not None
    assert store.locate(source) is None
    directory.mkdir(parents=True)
    assert store.locate(source) == directory
    os.utime(file, ns=(1, 1))
    assert store.locate(source) is None


def test_two_packages_never_share_a_directory(store: Store) -> None:
    one, two = (Source("pypi", f"d==1:m.gguf#sha256={c * 64}", "") for c in "ab")
    assert store.converted(one) != store.converted(two)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c", id="cache"),
        pytest.param({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub", id="home"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub", id="cache directory of the desktop"),
        pytest.param({}, str(Path.home() / ".cache/huggingface/hub"), id="nothing set"),
    ],
)
def test_the_hubs_cache_is_where_its_own_client_puts_it(environ: dict[str, str], expected: str) -> None:
    assert hub_cache(environ) == Path(expected)
    base = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE", "XDG"))}
    program = "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)"
    said = subprocess.run([sys.executable, "-c", program], env=base | environ, capture_output=True, text=True)
    assert said.stdout.strip() == expected


def test_models_are_kept_in_the_appliances_home() -> None:
    assert default_root({"APPLIANCE_HOME": "/a"}) == Path("/a/models")
    assert default_root({}) == Path.home() / ".appliance" / "models"


def test_locating_imports_nothing_slow() -> None:
    program = (
        "import sys, appliance.models.store, appliance.models.inspect, appliance.models.pull;"
        "print(sorted({'mlx', 'mlx_lm', 'transformers', 'huggingface_hub', 'numpy', 'rich'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "[]", said.stderr
