"""`appliance models search` and `verify`, run as a user runs them, the latter against a hub on localhost."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import cli
from tests.models.hub_server import COMMIT, Hub, hub_serving

OWN = f"""\
family: mine
aliases:
  good: {{source: "hf:owner/model@{COMMIT}", memory: 1GiB}}
  unreckoned: {{source: "hf:owner/model@{COMMIT}"}}
  small: {{source: "hf:owner/model@{COMMIT}", memory: 1KiB}}
  moved: {{source: "hf:owner/model@{"0" * 40}", memory: 1GiB}}
  gone: {{source: "hf:owner/missing@{COMMIT}", memory: 1GiB}}
  packed: {{source: "pypi:dist==1:model.gguf#sha256={"0" * 64}"}}
source: {{card: mine}}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a family of our own and the short names of a hub on localhost."""
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.yaml").write_text(OWN)
    return tmp_path


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_serving({"config.json": b"{}", "model.safetensors": b"w" * 5000, "onnx/x.safetensors": b"x"}) as serving:
        yield serving


def verify(url: str, *names: str) -> tuple[int, dict[str, str], str]:
    """Exit code, problem by name, and what was said on stderr or in diagnostics."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-m", "appliance", "models", "verify", *names, "--json"]
    done = subprocess.run(command, env=kept | {"HF_ENDPOINT": url}, capture_output=True, check=False, text=True)
    whole = json.loads(done.stdout)
    said = "".join(each["message"] for each in whole["diagnostics"])
    return done.returncode, {each["name"]: each["problem"] for each in whole["data"] or ()}, said


def test_names_that_hold_are_good(hub: Hub) -> None:
    assert verify(hub.url, "good", "unreckoned", "packed") == (0, {"good": "", "unreckoned": "", "packed": ""}, "")


def test_each_name_that_does_not_hold_says_why(hub: Hub) -> None:
    code, found, _ = verify(hub.url, "good", "small", "moved", "gone")
    assert code == 1
    assert found["good"] == ""
    assert "its weights alone are 0 MiB, the catalogue says 0 MiB" in found["small"]
    assert "has no revision" in found["moved"]
    assert "does not exist" in found["gone"]


def test_a_hub_that_cannot_be_reached_is_said_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, found, said = verify(f"http://127.0.0.1:{free.getsockname()[1]}", "good", "moved")
    assert (code, found) == (1, {})
    assert said.startswith("nothing was checked: cannot reach the hub")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["models", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("words", "name", "other"),
    [
        (("qwen3", "4b"), "qwen3-4b", "qwen3-8b-4bit"),
        (("QWEN3-Coder",), "qwen3-coder-30b", "qwen3-4b"),
        (("mine",), "good", "qwen3-4b"),
        (("owner/model",), "small", "gone"),
        ((), "gpt-oss-20b", "no such name"),
    ],
    ids=["two words", "any case", "a family", "a repository", "all"],
)
def test_short_names_are_found(
    words: tuple[str, ...], name: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "search", *words, "--json")
    found = {each["name"] for each in json.loads(out)["data"]}
    assert (code, name in found, other in found) == (0, True, False)
    assert name in run(capsys, "search", *words)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "qwen3-4bb"), "did you mean"),
        (("search", "nothing", "like", "it"), "write hf:owner/name"),
        (("verify", "qwen3-4bb"), "did you mean"),
    ],
)
def test_what_is_not_found_is_said_with_what_to_do(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *arguments)
    assert (code, said in err) == (1, True)


def test_a_short_name_is_estimated_before_its_files_are_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", "/nonexistent")
    Path("deploy.yaml").write_text("version: 1\nmemory: {budget: 8GiB}\nmodels: {m: {source: good}}\n")
    code, out, err = run(capsys, "estimate", "m")
    assert (code, out.startswith("m: about 1.0 GiB by the catalogue"), "appliance pull good" in err) == (
        0,
        True,
        True,
    )
    code, out, _ = run(capsys, "estimate", "gpt-oss-120b")
    assert (code, "it does not fit" in out) == (1, True)
