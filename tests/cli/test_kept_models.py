"""`appliance models ls` and `rm`, run as a user runs them."""

import json
from pathlib import Path

import pytest

from appliance import cli
from appliance.models.store import Store
from tests.models.test_fetched import put, repository


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    models = "{a: {source: 'hf:owner/named'}}"
    (tmp_path / "deploy.yaml").write_text(f"version: 1\nmodels: {models}\nstorage: {{models: ./kept}}\n")
    store = Store(tmp_path / "kept", tmp_path / "kept" / "hub")
    put(store, repository("named"), 3 << 20, 100.0)
    put(store, repository("other"), 5 << 20, 200.0)
    return store


def test_what_was_fetched_is_listed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["models", "ls"]) == 0
    first, second = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert first[:3] == ["hf:owner/other@main", "5", "MiB"]
    assert (second[:3], second[-1]) == (["hf:owner/named@main", "3", "MiB"], "a")
    assert cli.run(["models", "ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["data"]
    assert [(model["sources"], model["named"]) for model in found] == [
        (["hf:owner/other@main"], []), (["hf:owner/named@main"], ["a"]),
    ]  # fmt: skip


def test_nothing_is_listed_where_nothing_was_fetched(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deploy.yaml").unlink()
    assert cli.run(["models", "ls"]) == 0
    assert capsys.readouterr().out == "none was fetched\n"


REFUSED = {
    "named by the file": ("hf:owner/named", "deploy.yaml names hf:owner/named as a"),
    "not fetched": ("hf:owner/nothing", "hf:owner/nothing was not fetched"),
    "no source": ("owner/other", "hf:"),
}


@pytest.mark.parametrize(("source", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_served_is_not_removed(
    store: Store, source: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["models", "rm", source]) != 0
    assert words in capsys.readouterr().err
    assert len(list(store.notes.iterdir())) == 2


@pytest.mark.parametrize("source", ["hf:owner/other", "hf:owner/other@main"])
def test_another_one_is_removed(store: Store, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["models", "rm", source]) == 0
    assert "removed hf:owner/other@main: 5 MiB" in capsys.readouterr().out
    assert not (store.hub / "models--owner--other").exists()
