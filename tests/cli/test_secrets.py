"""Secrets planted in files and in the environment are in no output of a command that reads a deploy file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from appliance.cli.config import config
from appliance.cli.plan import plan
from appliance.cli.validate import validate
from appliance.config import load
from appliance.config.problem import Rejected

PLANTED = ("planted-in-env", "planted-in-a-file", "planted-in-place", "planted-for-a-peer", "planted-before")
GOOD = """\
version: 1
models: {demo: {source: "fake:script.yaml"}}
security:
  keys:
    env: {secret: "${env:PLANTED}"}
    file: {secret: "${file:secrets/key}", allow: [demo]}
    place: {secret: planted-in-place}
routing:
  peers: {studio: {url: "http://studio.local", key: planted-for-a-peer}}
"""
FAULTS = {
    "good": ("", ""),
    "another problem on the line": ("allow: [demo]", "allow: demo, lmits: {}"),
    "a misspelt secret": ("secret: planted", "secrte: planted"),
    "the wrong kind": ("secret: planted-in-place", "secret: [planted-in-place]"),
    "twice": ("secret: planted-in-place", "secret: planted-in-place, secret: planted-in-place"),
    "the same twice": ("secret: planted-in-place", 'secret: "${env:PLANTED}"'),
    "a broken line": ("secret: planted-in-place", "secret: planted-in-place, allow: ["),
    "a broken peer": ("key: planted-for-a-peer", "key: planted-for-a-peer, ["),
    "a secret where a number belongs": ('source: "fake:script.yaml"', 'source: "fake:x", pin: "${env:PLANTED}"'),
    "a secret where a name belongs": ('source: "fake:script.yaml"', 'source: "fake:x", cache: "${env:PLANTED}"'),
    "a secret file as a family": ('source: "fake:script.yaml"', 'source: "fake:x", family: "${file:secrets/key}"'),
}


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files a deploy file names, and an earlier deploy file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLANTED", "planted-in-env")
    Path("secrets").mkdir()
    Path("secrets/key").write_text("planted-in-a-file\n")
    Path("script.yaml").write_text("steps: []\n")
    old = GOOD.replace("planted-in-place", "planted-before").replace("planted-for-a-peer", "planted-before")
    Path("old.yaml").write_text(old)
    return tmp_path


def outputs() -> Iterator[str]:
    app = typer.Typer()
    for command in (validate, config, plan):
        app.command(command.__name__)(command)
    for arguments in (
        ["validate"], ["validate", "--json"], ["validate", "--format", "github"],
        ["config"], ["config", "--json"], ["config", "--origins"], ["config", "--origins", "--json"],
        ["config", "--explain", "security"], ["config", "--explain", "routing", "--json"],
        ["plan", "--against", "old.yaml", "--out", "plan.json"], ["plan", "--against", "old.yaml", "--json"],
    ):  # fmt: skip
        result = CliRunner().invoke(app, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        yield result.output
        yield result.stderr
    if (written := Path("plan.json")).exists():
        yield written.read_text()


@pytest.mark.parametrize("available", [False, True], ids=["this version", "a version that has keys and peers"])
@pytest.mark.parametrize("fault", FAULTS)
def test_no_output_holds_a_secret(before: Path, fault: str, available: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD.replace(*FAULTS[fault]) if FAULTS[fault][0] else GOOD
    Path("deploy.yaml").write_text(text)
    if available:
        tolerant = load.examine
        monkeypatch.setattr(load, "examine", lambda *a, **k: tolerant(*a, **k, tolerate={"E110"}))
    for output in outputs():
        for planted in PLANTED:
            assert planted not in output


def test_no_representation_of_a_deployment_or_a_rejection_holds_a_secret(before: Path) -> None:
    Path("deploy.yaml").write_text(GOOD)
    arguments = {"environ": {"PLANTED": "planted-in-env"}, "inspect": lambda *_: None, "memory_bytes": 2**34}
    deployment = load.read(Path("deploy.yaml"), tolerate={"E110"}, **arguments)  # type: ignore[arg-type]
    Path("deploy.yaml").write_text(GOOD.replace(*FAULTS["another problem on the line"]))
    with pytest.raises(Rejected) as rejected:
        load.read(Path("deploy.yaml"), **arguments)  # type: ignore[arg-type]
    for shown in (
        repr(deployment),
        str(deployment),
        repr(rejected.value),
        str(rejected.value),
        repr(rejected.value.problems),
    ):
        assert not [planted for planted in PLANTED if planted in shown]
