"""`appliance plan` between two files, as a shell sees it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from appliance.cli.plan import plan

OLD = "version: 1\nmodels: {demo: {source: 'fake:script.yaml', load: startup}, gone: {source: 'hf:owner/gone'}}\n"
NEW = (
    "version: 1\nmodels: {demo: {source: 'fake:script.yaml', load: startup, context: 8k},"
    " far: {source: 'hf:owner/far', load: startup}}\n"
)
TEXT = """\
- models.gone
+ models.far
~ models.demo.context: 32k > 8k

engines:
  -  gone: stopped
  +  far: new
  =  demo: kept

memory: 64.0 MiB before, 64.0 MiB at the peak, 64.0 MiB after; models may take 6.4 GiB
  not counted, for their files are not here yet: far

1 to add, 1 to change, 1 to remove
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    Path("script.yaml").write_text("steps: []\n")
    Path("old.yaml").write_text(OLD)
    Path("deploy.yaml").write_text(NEW + "memory: {budget: 8GiB}\n")
    Path("old.yaml").write_text(OLD + "memory: {budget: 8GiB}\n")
    app = typer.Typer()
    app.command()(plan)
    return app


def test_the_plan_between_two_files_needs_no_server(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--against", "old.yaml"])
    assert (result.exit_code, result.stdout) == (0, TEXT)


@pytest.mark.parametrize(("old", "code"), [("old.yaml", 5), ("deploy.yaml", 0)], ids=["changes", "none"])
def test_the_detailed_exit_code_tells_whether_there_are_changes(app: typer.Typer, old: str, code: int) -> None:
    assert CliRunner().invoke(app, ["--against", old, "--detailed-exitcode"]).exit_code == code


def test_a_written_plan_has_the_digests_of_both_sides(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--against", "old.yaml", "--out", "plan.json", "--json"])
    written = json.loads(Path("plan.json").read_text())
    assert written == json.loads(result.stdout)
    data = written["data"]
    assert data["old"]["file"] == "old.yaml"
    assert len(data["old"]["digest"]) == len(data["new"]["digest"]) == 64
    assert data["old"]["digest"] != data["new"]["digest"]
    assert data["changes"][-1] == {
        "sign": "~", "path": "models.demo.context", "apply": "live", "before": "32k", "after": "8k",
    }  # fmt: skip
    assert data["engines"] == {
        "kept": ["demo"], "rebuilt": [], "replaced": [], "added": ["far"], "stopped": ["gone"],
    }  # fmt: skip
    assert data["memory"]["unknown"] == ["far"]


@pytest.mark.parametrize("bad", ["old.yaml", "deploy.yaml"])
def test_a_bad_file_on_either_side_exits_78(app: typer.Typer, bad: str) -> None:
    Path(bad).write_text(OLD + "aliases: {fast: dmeo}\n")
    result = CliRunner().invoke(app, ["--against", "old.yaml"])
    assert result.exit_code == 78
    assert f"{bad}:3:17 error[E201] aliases.fast: there is no model dmeo" in result.stderr


def test_without_another_file_and_without_a_server_it_says_what_to_do(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 3
    assert "nothing serves deploy.yaml now; start it with `appliance up -f deploy.yaml`" in result.stderr


OUT = {
    "the deploy file": ("deploy.yaml", "is a deploy file"),
    "the other deploy file": ("./old.yaml", "is a deploy file"),
    "in no directory": ("nowhere/plan.json", "cannot be written: No such file or directory"),
    "a directory": (".", "cannot be written: Is a directory"),
}


@pytest.mark.parametrize(("out", "said"), OUT.values(), ids=OUT.keys())
def test_a_plan_is_not_written_over_a_deploy_file_nor_where_nothing_can_be(
    app: typer.Typer, out: str, said: str
) -> None:
    result = CliRunner().invoke(app, ["--against", "old.yaml", "--out", out])
    assert (result.exit_code, result.exception.__class__) == (73, SystemExit)
    assert said in result.stderr
    assert Path("deploy.yaml").read_text().startswith(NEW)
