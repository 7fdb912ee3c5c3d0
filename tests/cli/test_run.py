"""The command line's own answers: usage, help, version, exit codes."""

import subprocess
import sys

import pytest

import appliance
from appliance.cli import COMMANDS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "appliance", *arguments], capture_output=True, text=True)


def test_the_version_is_on_stdout() -> None:
    done = run("version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{appliance.__version__}\n", "")


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout


USAGE = {"unknown command": ["fly"], "unknown option": ["up", "--fast"], "missing value": ["up", "-f"]}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error" in done.stderr
    assert "Traceback" not in done.stderr
