"""`appliance route` where there are other servers: what would leave this machine, and what they would be told."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import run

FILE = """
version: 1
security: {keys: {home: {secret: one, egress: deny}, out: {secret: two}}}
models: {small: {source: 'fake:s.yaml'}, big: {source: 'fake:s.yaml'}}
routing:
  virtual: [auto]
  rules: [{name: far, when: {model: auto}, use: [far/big, small]}]
  fallback: {big: {to: [far/big, small]}}
  peers: {far: {url: "http://far.example"}, claude: {url: "http://claude.example", api: anthropic}}
"""
CASES: dict[str, tuple[dict[str, Any], list[str], str, list[str], list[str]]] = {
    "a rule": ({"model": "auto"}, ["--key", "out"], "far/big", [], []),
    "a key that stays": ({"model": "auto"}, ["--key", "home"], "small", [], []),
    "a peer that is not well": ({"model": "auto"}, ["--down", "far"], "small", [], []),
    "fallbacks": ({"model": "big"}, ["--key", "out"], "big", ["far/big", "small"], []),
    "fallbacks that stay": ({"model": "big"}, ["--key", "home"], "big", ["small"], []),
    "what is not told": ({"model": "claude/x", "seed": 3}, [], "claude/x", [], ["seed=stripped(3>None)"]),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("text: hi\n")
    (tmp_path / "deploy.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize(("fields", "options", "model", "fallbacks", "rewritten"), CASES.values(), ids=CASES)
def test_a_decision_says_where_it_leads(
    here: Path,
    fields: dict[str, Any],
    options: list[str],
    model: str,
    fallbacks: list[str],
    rewritten: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "body.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}], **fields}))
    assert run(["route", "--request", "body.json", "--json", *options]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["model"], data["fallbacks"], data["rewritten"]) == (model, fallbacks, rewritten)


def test_what_may_not_leave_is_refused_before_anything_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "body.json").write_text('{"model": "far/big", "messages": [{"role": "user", "content": "hi"}]}')
    assert run(["route", "--request", "body.json", "--key", "home"]) == 1
    assert "may not leave this machine" in capsys.readouterr().err
