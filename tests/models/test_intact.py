"""Files that are not what the hub sent are found without asking it."""

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance import cli
from appliance.models.fetched import note
from appliance.models.intact import looked
from appliance.models.store import Store
from tests.models.test_fetched import repository

CONFIG = b'{"model_type": "llama"}'


def weights(numbers: bytes = b"\x01" * 64) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(numbers)], "data_offsets": [0, len(numbers)]}}).encode()
    return struct.pack("<Q", len(header)) + header + numbers


def git_digest(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def cached(directory: Path) -> Path:
    """A repository as the hub's cache has it; its snapshot."""
    blobs, snapshot = directory / "blobs", directory / "snapshots" / "c0ffee"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    parts = [("config.json", CONFIG, git_digest(CONFIG))]
    parts.append(("model.safetensors", weights(), hashlib.sha256(weights()).hexdigest()))
    for name, content, digest in parts:
        (blobs / digest).write_bytes(content)
        (snapshot / name).symlink_to(f"../../blobs/{digest}")
    return snapshot


def fetched_into(directory: Path) -> Path:
    """The same as `hf download --local-dir` leaves it."""
    notes = directory / ".cache/huggingface/download"
    notes.mkdir(parents=True)
    for name, content in (("config.json", CONFIG), ("model.safetensors", weights())):
        digest = git_digest(content) if name == "config.json" else hashlib.sha256(content).hexdigest()
        (directory / name).write_bytes(content)
        (notes / f"{name}.metadata").write_text(f"c0ffee\n{digest}\n1764460800.0\n")
    return directory


def overwrite(path: Path, content: bytes) -> None:
    path.resolve().write_bytes(content)


SHORT = f"has {len(weights()) - 1} bytes of {len(weights())}"
HARMS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "none": (lambda at: None, ["", ""]),
    "a number": (
        lambda at: overwrite(at / "model.safetensors", weights(b"\x02" * 64)),
        ["", "is not what the hub sent"],
    ),
    "its end": (
        lambda at: overwrite(at / "model.safetensors", weights()[:-1]),
        ["", SHORT],
    ),
    "its beginning": (lambda at: overwrite(at / "model.safetensors", b"\x00"), ["", "is no safetensors file"]),
    "a page instead": (lambda at: overwrite(at / "config.json", b"<html>"), ["is not what the hub sent", ""]),
}


@pytest.mark.parametrize("made", [cached, fetched_into], ids=lambda made: made.__name__)
@pytest.mark.parametrize(("harm", "said"), HARMS.values(), ids=HARMS)
def test_what_is_wrong_with_a_file_is_found(
    made: Callable[[Path], Path], harm: Callable[[Path], object], said: list[str], tmp_path: Path
) -> None:
    directory = made(tmp_path / "model")
    harm(directory)
    found = list(looked(directory))
    assert [(file.name, file.compared) for file in found] == [("config.json", True), ("model.safetensors", True)]
    assert [file.problem for file in found] == said


def test_a_file_that_its_index_names_is_missing(tmp_path: Path) -> None:
    snapshot = cached(tmp_path / "model")
    (snapshot / "model.safetensors").resolve().unlink()
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    missing = [file.name for file in looked(snapshot) if file.problem == "is missing"]
    assert missing == ["model-2.safetensors", "model.safetensors"]


def test_the_command_says_what_to_fetch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    store, source = Store(), repository("model")
    directory = store.directory(source)
    assert directory is not None
    snapshot = cached(directory)
    note(source, store)
    assert cli.run(["models", "check"]) == 0
    assert capsys.readouterr().out == "hf:owner/model@main: 2 files as the hub sent them\n"
    overwrite(snapshot / "config.json", b"{}")
    assert cli.run(["models", "check", "hf:owner/model"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "hf:owner/model@main: config.json is not what the hub sent"
    assert "`appliance models rm hf:owner/model@main`" in second
    assert cli.run(["models", "check", "hf:owner/nothing"]) == 1
    assert "its files are not here; `appliance pull hf:owner/nothing" in capsys.readouterr().err
