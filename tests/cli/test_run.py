"""The command line's own answers: usage, help, version, exit codes."""

import os
import subprocess
import sys
from pathlib import Path

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


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [["version"], ["schema"], ["up", "--help"], ["profiles", "ls"]], ids=" ".join)
def test_an_output_that_takes_nothing_is_said_in_a_line(arguments: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([sys.executable, "-m", "appliance", *arguments], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"appliance: the output: No space left on device\n")


def test_a_reader_that_has_gone_ends_a_command_in_silence() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "appliance", "profiles", "ls"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_file_that_the_system_keeps_back_is_named(tmp_path: Path) -> None:
    (tmp_path / "profiles").write_text("no directory")
    environ = os.environ | {"APPLIANCE_HOME": str(tmp_path / "profiles")}
    command = [sys.executable, "-m", "appliance", "keys", "new", "one"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 73
    assert done.stderr.startswith(f"appliance: {tmp_path / 'profiles'}")


def test_problems_of_a_file_are_told_in_their_own_form(tmp_path: Path) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text("version: 1\nmodels: {a: {}}\n")
    done = run("pull", "-f", str(file))
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith(f"{file}:2:10 error[E106]")
