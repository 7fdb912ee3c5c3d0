"""`appliance validate` and `appliance schema`, as a shell sees them."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from appliance.cli.schema import schema
from appliance.cli.validate import validate
from appliance.config.codes import CODES

GOOD = "version: 1\nmodels: {demo: {source: smollm2-135m}}\naliases: {fast: demo}\n"
BAD = "version: 1\nmodels: {demo: {source: smollm2-135m, pni: true}}\n"
PROBLEM = """\
deploy.yaml:2:39 error[E102] models.demo.pni: unknown key; did you mean pin?
    2 | models: {demo: {source: smollm2-135m, pni: true}}
      |                                       ^^^
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    app = typer.Typer()
    app.command()(validate)
    app.command()(schema)
    return app


def test_a_good_file_says_so_and_exits_0(app: typer.Typer) -> None:
    Path("deploy.yaml").write_text(GOOD)
    result = CliRunner().invoke(app, ["validate"])
    assert (result.exit_code, result.stdout) == (0, "deploy.yaml: good: 1 model, 1 alias\n")


def test_a_bad_file_shows_its_problems_on_stdout_and_exits_78(app: typer.Typer) -> None:
    Path("deploy.yaml").write_text(BAD)
    result = CliRunner().invoke(app, ["validate", "-f", "deploy.yaml"])
    assert (result.exit_code, result.stdout) == (78, PROBLEM)
    assert result.stderr == "1 problem; `appliance validate --explain E102` says more about the first\n"


def test_a_missing_file_exits_78(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["validate", "-f", "none.yaml"])
    assert result.exit_code == 78
    assert "none.yaml:1:1 error[E108] cannot be read" in result.stdout


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"]], ids=" ".join)
@pytest.mark.parametrize(("text", "ok", "code"), [(GOOD, True, 0), (BAD, False, 78)], ids=["good", "bad"])
def test_json_is_one_object_with_data_and_diagnostics(
    app: typer.Typer, flags: list[str], text: str, ok: bool, code: int
) -> None:
    Path("deploy.yaml").write_text(text)
    result = CliRunner().invoke(app, ["validate", *flags])
    said = json.loads(result.stdout)
    assert result.exit_code == code
    assert said.keys() == {"schema", "kind", "ok", "data", "diagnostics"}
    assert (said["schema"], said["kind"], said["ok"]) == (1, "validate", ok)
    assert [problem["code"] for problem in said["diagnostics"]] == ([] if ok else ["E102"])
    assert said["data"].get("models") == (["demo"] if ok else None)


def test_github_gets_annotations_and_nothing_else(app: typer.Typer) -> None:
    Path("deploy.yaml").write_text(BAD)
    result = CliRunner().invoke(app, ["validate", "--format", "github"])
    assert result.exit_code == 78
    assert result.stdout.startswith(
        "::error file=deploy.yaml,line=2,col=39,endColumn=42,title=E102::models.demo.pni:"
    )
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("code", [*CODES, "e102"])
def test_every_code_is_explained(app: typer.Typer, code: str) -> None:
    result = CliRunner().invoke(app, ["validate", "--explain", code])
    title, text = CODES[code.upper()]
    assert (result.exit_code, result.stdout) == (0, f"{code.upper()}: {title}\n\n{text}\n")


def test_an_unknown_code_is_a_usage_error(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["validate", "--explain", "E120"])
    assert result.exit_code == 2
    assert "there is no code E120; did you mean" in result.stderr


@pytest.mark.parametrize(("arguments", "title"), [([], "deploy.yaml"), (["family"], "A model family")], ids=str)
def test_the_schema_is_printed_as_it_is_shipped(app: typer.Typer, arguments: list[str], title: str) -> None:
    result = CliRunner().invoke(app, ["schema", *arguments])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["title"] == title
