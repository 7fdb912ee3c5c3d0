"""`appliance init`: a first file that is good, and conversions that say what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.config import load


def appliance(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "appliance", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_it_writes_a_file_without_problems_and_its_schema(tmp_path: Path) -> None:
    done = appliance(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "next: appliance up"
    checked = appliance(tmp_path, "validate")
    assert (checked.returncode, checked.stderr) == (0, "")
    schema = tmp_path / ".appliance" / "deploy.schema.json"
    assert schema.read_text() == load.schema_text("deploy")
    modeline = (tmp_path / "deploy.yaml").read_text().splitlines()[0]
    assert modeline == "# yaml-language-server: $schema=./.appliance/deploy.schema.json"


def test_it_overwrites_only_when_told_to(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("precious")
    done = appliance(tmp_path, "init", "--file", "mine.yaml")
    assert done.returncode == 73
    assert "--force" in done.stderr
    assert file.read_text() == "precious"
    done = appliance(tmp_path, "init", "--file", "mine.yaml", "--force")
    assert done.stdout.splitlines()[-1] == "next: appliance up -f mine.yaml"
    assert "version: 1" in file.read_text()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = appliance(tmp_path, "init", "-f", "nowhere/deploy.yaml")
    assert done.returncode == 73
    assert "nowhere" in done.stderr


def test_a_command_line_is_printed_as_a_deploy_file(tmp_path: Path) -> None:
    done = appliance(
        tmp_path, "init", "--from", "--", "rapid-mlx", "serve", "a/b", "--port", "9000", "--pflash", "on"
    )
    assert done.returncode == 0
    assert "listen: 127.0.0.1:9000" in done.stdout
    assert "--pflash on" in done.stderr
    assert not (tmp_path / "deploy.yaml").exists()


def test_a_file_is_converted_and_written_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "Modelfile").write_text("FROM smollm2:135m\nSYSTEM Be brief.\n")
    done = appliance(tmp_path, "init", "--from", "Modelfile", "--file", "deploy.yaml")
    assert (done.returncode, done.stdout) == (0, "next: appliance up\n")
    assert "SYSTEM" in done.stderr
    assert appliance(tmp_path, "validate").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["--from"], 2, "--from PATH", id="nothing to convert"),
        pytest.param(["config.yaml"], 2, "follows --from", id="a file without the flag"),
        pytest.param(["--from", "nothing.yaml"], 73, "nothing.yaml", id="a missing file"),
        pytest.param(["--from", "--kind", "zebra", "x"], 2, "llama-swap", id="an unknown kind"),
        pytest.param(["--from", "--", "ollama", "serve"], 78, "mlx_lm.server", id="an unknown command"),
    ],
)
def test_what_cannot_be_done_says_why(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    done = appliance(tmp_path, "init", *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
