"""Repositories are fetched by the hub's own client, run as a process against a hub on localhost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config.sources import parse
from appliance.models.inspect import inspect
from appliance.models.store import Store
from tests.checkpoints import tiny_vocab_llama
from tests.models.hub_server import COMMIT, Hub, hub_serving


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    model = tiny_vocab_llama(tmp_path / "model")
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    unwanted = {"README.md": b"# hello", "pytorch_model.bin": b"pickle", "onnx/model.safetensors": b"other"}
    files["additional_chat_templates/tool_use.jinja"] = b"tools"
    with hub_serving(files | unwanted) as serving:
        yield serving


def pull(tmp_path: Path, text: str, url: str, **environ: str) -> list[dict[str, Any]]:
    done = subprocess.run(**_command(tmp_path, text, url, environ), capture_output=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (0 if "path" in lines[-1] else 1), done.stderr.decode()
    return lines


def _command(tmp_path: Path, text: str, url: str, environ: dict[str, str]) -> dict[str, Any]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    # Retries of the client would only lengthen the tests of a hub that is down.
    settings = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_ETAG_TIMEOUT": "5"}
    return {
        "args": [sys.executable, "-m", "appliance.models.pull", "--store", str(tmp_path / "store"), text],
        "env": keep | settings | environ,
    }


def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", tmp_path / "hf" / "hub")


def test_a_repository_is_fetched_once_and_without_what_is_not_needed(hub: Hub, tmp_path: Path) -> None:
    lines = pull(tmp_path, "hf:owner/model", hub.url)
    path = Path(lines[-1]["path"])
    assert sorted(file.name for file in path.iterdir()) == [
        "additional_chat_templates",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert lines[-2]["done"] == lines[-2]["total"] > 300_000
    assert store(tmp_path).locate(parse("hf:owner/model", "/", {})) == path
    assert inspect(path).repo == "owner/model"
    assert inspect(path).template == "tools"
    hub.files.clear()
    assert pull(tmp_path, "hf:owner/model", hub.url) == lines[-1:]


def test_a_commit_is_found_without_a_branch(hub: Hub, tmp_path: Path) -> None:
    path = Path(pull(tmp_path, f"hf:owner/model@{COMMIT}", hub.url)[-1]["path"])
    assert path.name == COMMIT
    assert store(tmp_path).locate(parse(f"hf:owner/model@{COMMIT}", "/", {})) == path


def test_a_killed_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = whole = hub.files["model.safetensors"] * 120
    hub.stall_at["model.safetensors"] = stop = 20_000_000
    with subprocess.Popen(**_command(tmp_path, "hf:owner/model", hub.url, {}), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("done", 0) >= stop * 9 // 10:
                break
        process.send_signal(signal.SIGKILL)
    assert store(tmp_path).locate(parse("hf:owner/model", "/", {})) is None
    hub.stall_at.clear()
    lines = pull(tmp_path, "hf:owner/model", hub.url)
    assert (Path(lines[-1]["path"]) / "model.safetensors").read_bytes() == whole
    [(file, asked)] = hub.ranges
    assert file == "model.safetensors"
    assert int(asked.removeprefix("bytes=").rstrip("-")) >= stop * 8 // 10


def test_a_dropped_connection_is_taken_up_again(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = whole = hub.files["model.safetensors"] * 120
    hub.stall_at["model.safetensors"] = 20_000_000
    hub.go_on.set()
    path = Path(pull(tmp_path, "hf:owner/model", hub.url)[-1]["path"])
    assert (path / "model.safetensors").read_bytes() == whole
    assert hub.ranges[0] == ("model.safetensors", "bytes=20000000-")


def test_a_damaged_file_is_not_kept(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = hub.files["model.safetensors"] * 120
    hub.damaged.add("model.safetensors")
    last = pull(tmp_path, "hf:owner/model", hub.url)[-1]
    assert "arrived damaged" in last["error"]
    assert last["permanent"] is False
    hub.damaged.clear()
    assert "path" in pull(tmp_path, "hf:owner/model", hub.url)[-1]


@pytest.mark.parametrize(
    ("text", "words", "permanent"),
    [
        pytest.param("hf:owner/gated", "is gated: accept its terms at", True, id="gated"),
        pytest.param("hf:owner/missing", "does not exist or is private", True, id="missing"),
        pytest.param("hf:owner/model@v9", "has no revision `v9`", True, id="no such revision"),
        pytest.param("hf:owner/broken", "the hub did not give", False, id="hub out of order"),
    ],
)
def test_what_the_hub_refuses_is_explained(text: str, words: str, permanent: bool, hub: Hub, tmp_path: Path) -> None:
    last = pull(tmp_path, text, hub.url)[-1]
    assert words in last["error"]
    assert text.partition("@")[0] in last["error"]
    assert last["permanent"] is permanent


def test_offline_says_so_and_uses_what_is_there(hub: Hub, tmp_path: Path) -> None:
    last = pull(tmp_path, "hf:owner/model", hub.url, HF_HUB_OFFLINE="1")[-1]
    assert "HF_HUB_OFFLINE is set" in last["error"]
    assert last["permanent"] is False
    here = pull(tmp_path, "hf:owner/model", hub.url)[-1]
    assert pull(tmp_path, "hf:owner/model", hub.url, HF_HUB_OFFLINE="1") == [here]


def test_a_hub_that_does_not_answer_may_answer_later(tmp_path: Path) -> None:
    last = pull(tmp_path, "hf:owner/model", "http://127.0.0.1:9")[-1]
    assert "cannot reach the hub" in last["error"]
    assert last["permanent"] is False


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param({"config.json": b"{}", "pytorch_model.bin": b"x"}, "only pytorch_model.bin", id="pickles"),
        pytest.param({"m.Q4_0.gguf": b"x"}, "only m.Q4_0.gguf", id="GGUF files"),
        pytest.param({"README.md": b"x"}, "is no model", id="no model"),
        pytest.param(
            {
                "config.json": b"{}",
                "model-1.safetensors": b"x",
                "model.safetensors.index.json": b'{"weight_map": {"w": "model-2.safetensors"}}',
            },
            "does not have",
            id="missing shard",
        ),
    ],
)
def test_a_repository_we_cannot_load_is_refused(files: dict[str, bytes], words: str, tmp_path: Path) -> None:
    with hub_serving(files) as hub:
        last = pull(tmp_path, "hf:owner/model", hub.url)[-1]
    assert words in last["error"]
    assert last["permanent"] is True
