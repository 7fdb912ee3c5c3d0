"""`appliance pull`: models are fetched by the names of a deploy file, or by source."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints import byte_level_tokenizer, tiny_config, tiny_vocab_llama, tiny_weights
from tests.gguf_file import llama_metadata, write_llama

DEPLOY = """
version: 1
models:
  here: {source: ./model}
  file: {source: ./tiny.gguf}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A deploy file with a model that is here and one that has to be converted."""
    tiny_vocab_llama(tmp_path / "model")
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer())
    write_llama(tmp_path / "tiny.gguf", metadata, tiny_weights(300), "F16")
    (tmp_path / "deploy.yaml").write_text(DEPLOY)
    return tmp_path


def run(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    root = str(Path(__file__).resolve().parents[2])
    environ = os.environ | {"APPLIANCE_HOME": str(place / "home"), "PYTHONPATH": root}
    command = [sys.executable, "-P", "-m", "appliance", "pull", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=place, env=environ, check=False)


def test_every_model_of_the_file_is_fetched_once(place: Path) -> None:
    first = run(place)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[0] == f"here: already here: {place / 'model'}"
    assert first.stdout.splitlines()[1].startswith(f"file: fetched: {place / 'home' / 'models' / 'gguf' / 'tiny-'}")
    assert first.stderr.splitlines()[-1] == "file: convert 100%"
    second = run(place)
    assert second.stdout == first.stdout.replace("fetched", "already here")
    assert second.stderr == ""


def test_the_small_model_that_guesses_for_another_is_fetched_with_it(place: Path) -> None:
    (place / "deploy.yaml").write_text(
        "{version: 1, models: {here: {source: ./model, speculative: {kind: draft, draft: ./tiny.gguf}}}}"
    )
    pulled = run(place)
    assert pulled.returncode == 0, pulled.stderr
    assert [line.split(": ")[:2] for line in pulled.stdout.splitlines()] == [
        ["here", "already here"],
        ["here.draft", "fetched"],
    ]


@pytest.mark.parametrize("word", ["file", "./tiny.gguf"], ids=["a model's name", "a source"])
def test_one_model_can_be_named(word: str, place: Path) -> None:
    done = run(place, word, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    [model] = said.pop("data")["models"]
    assert said == {"schema": 1, "kind": "pull", "ok": True, "diagnostics": []}
    assert (model["name"], model["fetched"]) == (word, True)
    assert (Path(model["path"]) / "config.json").is_file()


def test_a_source_needs_no_deploy_file(place: Path) -> None:
    (place / "deploy.yaml").write_text("nonsense: [")
    assert run(place, "./tiny.gguf").returncode == 0
    (place / "deploy.yaml").unlink()
    assert run(place, "./model").returncode == 0


def test_one_failure_does_not_keep_the_others(place: Path) -> None:
    done = run(place, "./none", "file")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"./none: no directory {place / 'none'}"
    assert done.stdout.startswith("file: fetched: ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["fil"], 2, "(models of deploy.yaml: here, file)", id="misspelt model"),
        pytest.param(["owner/name"], 2, "write hf:owner/name", id="bare repository"),
        pytest.param(["-f", "none.yaml"], 78, "none.yaml", id="no deploy file"),
    ],
)
def test_what_cannot_be_understood_is_said(arguments: list[str], code: int, words: str, place: Path) -> None:
    done = run(place, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
