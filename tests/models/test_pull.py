"""One way to bring a model here, whatever its source: as a function, and as a process the server runs."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.config.deployment import Source
from appliance.config.sources import in_full, parse
from appliance.errors import SourceError
from appliance.models.disk import check_room
from appliance.models.inspect import inspect
from appliance.models.pull import command, pull
from appliance.models.sources import FETCH
from appliance.models.store import Store
from tests.checkpoints import byte_level_tokenizer, tiny_config, tiny_vocab_llama, tiny_weights
from tests.gguf_file import llama_metadata, write_llama

SHA = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models", tmp_path / "hub")


@pytest.fixture
def gguf(tmp_path: Path) -> Source:
    file = tmp_path / "tiny.gguf"
    write_llama(file, llama_metadata(tiny_config(300), byte_level_tokenizer()), tiny_weights(300), "Q8_0")
    return Source("gguf", str(file), "./tiny.gguf")


@pytest.mark.parametrize(
    "text",
    ["hf:o/n@main", "hf:o/n@v1", "/models/m", "/m/x.gguf", "fake:/s.yaml", f"pypi:d==1:m.gguf#sha256={SHA}"],
)
def test_a_source_written_in_full_is_read_as_itself(text: str) -> None:
    source = parse(text, "/elsewhere", {})
    assert in_full(source) == text


def test_every_kind_of_source_can_be_fetched() -> None:
    assert set(FETCH) == set(Source.__annotations__["kind"].__args__) - {"peer"}, "what others serve stays there"


def test_what_is_here_is_left_alone(store: Store, tmp_path: Path) -> None:
    model = tiny_vocab_llama(tmp_path / "m")
    assert pull(Source("path", str(model), "./m"), store) == model
    assert not store.root.exists()


def test_a_gguf_file_is_converted_once(store: Store, gguf: Source) -> None:
    said: list[tuple[str, int, int]] = []
    path = pull(gguf, store, lambda *what: said.append(what))
    assert inspect(path).context == 2048
    assert said[-1] == ("convert", 21, 21)
    said.clear()
    assert pull(gguf, store, lambda *what: said.append(what)) == path
    assert said == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param({}, "no directory", id="nothing there"),
        pytest.param({"m": b"text"}, "neither a model directory nor a .gguf file", id="a file"),
        pytest.param({"m/readme": b""}, "it has no config.json; is it the right directory?", id="no model"),
        pytest.param({"m/a.gguf": b""}, "m/a.gguf", id="a directory of GGUF files"),
        pytest.param({"m/config.json": b"{}"}, "no *.safetensors file", id="no weights"),
        pytest.param({"m/config.json": b"{}", "m/pytorch_model.bin": b""}, "only pytorch_model.bin", id="pickles"),
        pytest.param(
            {
                "m/config.json": b"{}",
                "m/model-1.safetensors": b"",
                "m/model.safetensors.index.json": b'{"weight_map": {"a": "model-2.safetensors"}}',
            },
            "names files that are not there",
            id="a shard missing",
        ),
    ],
)
def test_a_directory_that_is_no_model_says_why(
    make: dict[str, bytes], words: str, store: Store, tmp_path: Path
) -> None:
    for name, content in make.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError) as caught:
        pull(Source("path", str(tmp_path / "m"), "./m"), store)
    assert words in caught.value.message
    assert caught.value.permanent


def test_missing_files_are_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no script .*s\.yaml"):
        pull(Source("fake", str(tmp_path / "s.yaml"), "fake:s.yaml"), store)
    with pytest.raises(SourceError, match=r"no file .*m\.gguf"):
        pull(Source("gguf", str(tmp_path / "m.gguf"), "./m.gguf"), store)


def test_too_little_room_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    check_room(tmp_path / "not" / "yet", 1)
    with pytest.raises(SourceError, match="not enough room") as caught:
        check_room(tmp_path / "not" / "yet", 2**60)
    assert not caught.value.permanent


ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def _run(store: Store, source: Source, cwd: Path) -> list[dict[str, Any]]:
    done = subprocess.run(command(source, store), capture_output=True, cwd=cwd, env=ENVIRONMENT, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (0 if "path" in lines[-1] else 1), done.stderr.decode()
    return lines


def test_the_process_says_the_path(store: Store, gguf: Source, tmp_path: Path) -> None:
    lines = _run(store, gguf, tmp_path)
    assert lines[:-1] == [{"phase": "convert", "done": done, "total": 21} for done in range(1, 22)]
    assert lines[-1] == {"path": str(store.locate(gguf))}


def test_the_process_says_the_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    assert _run(store, Source("gguf", str(tmp_path / "bad.gguf"), ""), tmp_path) == [
        {"error": "bad.gguf is empty or cut short; fetch it again", "permanent": True}
    ]


def test_the_directory_it_runs_in_cannot_lend_it_modules(store: Store, gguf: Source, tmp_path: Path) -> None:
    for name in ("numpy", "argparse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    assert _run(store, gguf, tmp_path)[-1] == {"path": str(store.locate(gguf))}


def test_a_store_that_cannot_be_written_is_named(gguf: Source, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match=r"cannot write to .*file"):
        pull(gguf, Store(tmp_path / "file", tmp_path / "hub"))


def test_a_second_pull_waits_for_the_first_and_uses_its_work(store: Store, gguf: Source, tmp_path: Path) -> None:
    lock = store.lock(gguf)
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(command(gguf, store), stdout=subprocess.PIPE, env=ENVIRONMENT)
        _wait_until_blocked(lock, second)
        path = store.converted(gguf)
        assert path is not None
        tiny_vocab_llama(path)
    said, _ = second.communicate()
    assert [json.loads(line) for line in said.splitlines()] == [{"path": str(path)}]


def _wait_until_blocked(lock: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until the process has the lock file open: it asks for the lock next."""
    while process.poll() is None:
        for entry in _open_files(process.pid):
            if entry == str(lock):
                return


def _open_files(pid: int) -> list[str]:
    if sys.platform != "linux":
        listed = subprocess.run(["lsof", "-Fn", "-p", str(pid)], capture_output=True, text=True, check=False)
        return [os.path.realpath(line[1:]) for line in listed.stdout.splitlines() if line.startswith("n/")]
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
