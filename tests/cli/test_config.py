"""`appliance config`, as a shell sees it."""

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from appliance.cli.config import config

TEXT = """\
version: 1
defaults: {context: 16k, policy: {clamp: {temperature: [0, 1]}}}
models:
  big: {source: "hf:owner/big", sampling: {temperature: 0.5}}
  next: {extends: big, context: 8k}
aliases: {fast: {model: next, sampling: {temperature: 2}}}
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    Path("deploy.yaml").write_text(TEXT)
    app = typer.Typer()
    app.command()(config)
    return app


@pytest.mark.parametrize("flags", [[], ["--resolved"]], ids=["by default", "asked for"])
def test_the_resolved_file_is_yaml_with_defaults_in_their_places(app: typer.Typer, flags: list[str]) -> None:
    result = CliRunner().invoke(app, flags)
    assert result.exit_code == 0
    resolved = yaml.safe_load(result.stdout)
    assert resolved["models"]["next"]["source"] == "hf:owner/big"
    assert resolved["models"]["next"]["context"] == "8k"
    assert resolved["server"]["listen"] == ["127.0.0.1:8080"]


def test_the_resolved_file_as_json(app: typer.Typer) -> None:
    said = json.loads(CliRunner().invoke(app, ["--json"]).stdout)
    assert (said["schema"], said["kind"], said["ok"], said["diagnostics"]) == (1, "config", True, [])
    assert said["data"]["aliases"]["fast"]["model"] == "next"


def test_one_setting_is_explained_with_every_layer_it_beat(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--explain", "aliases.fast.sampling.temperature"])
    assert result.stdout == (
        "aliases.fast.sampling.temperature = 1.0\n"
        "  > 2.0               aliases.fast  deploy.yaml:6:55\n"
        "    0.5               models.big    deploy.yaml:4:57\n"
        "    1.0               built-in\n"
        "  ! clamp [0.0, 1.0]  defaults      deploy.yaml:2:56\n"
    )


def test_an_explanation_as_json_has_the_winner_the_beaten_and_the_rules(app: typer.Typer) -> None:
    said = json.loads(CliRunner().invoke(app, ["--explain", "models.next.context", "--json"]).stdout)
    assert said["kind"] == "origins"
    assert said["data"] == [
        {
            "path": "models.next.context",
            "value": "8k",
            "winner": {"layer": "models.next", "value": "8k", "file": "deploy.yaml", "line": 5, "column": 33},
            "beat": [
                {"layer": "defaults", "value": "16k", "file": "deploy.yaml", "line": 2, "column": 21},
                {"layer": "built-in", "value": "32k"},
            ],
            "rules": [],
        }
    ]


def test_every_origin_is_a_line(app: typer.Typer) -> None:
    lines = CliRunner().invoke(app, ["--origins"]).stdout.splitlines()
    assert (
        "models.next.context = 8k  # models.next (deploy.yaml:5:33); over defaults (deploy.yaml:2:21), built-in"
        in lines
    )
    assert "server.heartbeat = 15s  # built-in" in lines


def test_a_setting_that_is_not_there_is_a_usage_error(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--explain", "models.nxet.context"])
    assert result.exit_code == 2
    assert result.stderr == "appliance: there is no setting models.nxet.context; did you mean models.next.context?\n"


def test_only_one_question_at_a_time(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["--origins", "--resolved"]).exit_code == 2


def test_a_bad_file_shows_its_problems_and_exits_78(app: typer.Typer) -> None:
    Path("deploy.yaml").write_text(TEXT.replace("next}", "nxet}").replace("model: next", "model: nxet"))
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 78
    assert "error[E201] aliases.fast.model: there is no model nxet; did you mean next?" in result.stderr
    said = json.loads(CliRunner().invoke(app, ["--json"]).stdout)
    assert (said["ok"], said["diagnostics"][0]["code"]) == (False, "E201")
