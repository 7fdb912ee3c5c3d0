"""Which directory belongs to which deploy file, and that one process has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.control.state_dir import LONGEST_SOCKET_PATH, held, owner, state_of
from appliance.errors import StartRefused


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"APPLIANCE_HOME": str(tmp_path / "home")}


def file(directory: Path, name: str = "deploy.yaml") -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text("version: 1\n")
    return path


def test_two_files_never_share_state(tmp_path: Path, environ: dict[str, str]) -> None:
    states = [state_of(file(tmp_path / name), environ) for name in ("a", "b")]
    assert len({state.path for state in states}) == 2
    assert len({state.socket for state in states}) == 2


def test_a_file_has_one_state_by_whatever_name_it_is_called(tmp_path: Path, environ: dict[str, str]) -> None:
    real = file(tmp_path / "a")
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    roundabout = tmp_path / "a" / ".." / "a" / "deploy.yaml"
    assert {state_of(name, environ).path for name in (real, link, roundabout)} == {state_of(real, environ).path}


def test_a_switched_link_keeps_its_state(tmp_path: Path, environ: dict[str, str]) -> None:
    link = tmp_path / "deploy.yaml"
    link.symlink_to(file(tmp_path / "one"))
    before = state_of(link, environ)
    with held(before):
        link.unlink()
        link.symlink_to(file(tmp_path / "two"))
        assert state_of(link, environ).path == before.path
        assert owner(state_of(link, environ)) == os.getpid()


def test_a_second_process_is_told_who_holds_it(tmp_path: Path, environ: dict[str, str]) -> None:
    state = state_of(file(tmp_path / "a"), environ)
    program = (
        "import os, sys; from pathlib import Path; from appliance.control.state_dir import *\n"
        "with held(state_of(Path(sys.argv[1]))): print(os.getpid(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(state.file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}
    ) as other:
        assert other.stdout is not None
        pid = int(other.stdout.readline())
        assert owner(state) == pid
        with pytest.raises(StartRefused, match=rf"process {pid} .*appliance down") as refused, held(state):
            pass
        assert refused.value.exit_code == 75
        other.kill()
        other.wait()
        with held(state):
            assert owner(state) == os.getpid()
    assert owner(state) is None


def test_nobody_else_may_look_inside(tmp_path: Path, environ: dict[str, str]) -> None:
    state = state_of(file(tmp_path / "a"), environ)
    with held(state):
        for directory in (state.path, state.generations, state.socket.parent):
            assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("length", [10, 200], ids=["short home", "long home"])
def test_the_sockets_path_can_be_bound(tmp_path: Path, length: int) -> None:
    state = state_of(file(tmp_path / "a"), {"APPLIANCE_HOME": str(tmp_path / ("h" * length))})
    assert len(os.fsencode(state.socket)) <= LONGEST_SOCKET_PATH
    assert state_of(state.file, {"APPLIANCE_HOME": str(tmp_path / ("h" * length))}).socket == state.socket


def test_a_home_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    state = state_of(file(tmp_path / "a"), {"APPLIANCE_HOME": str(tmp_path / "home")})
    with pytest.raises(StartRefused, match=r"home.*APPLIANCE_HOME") as refused, held(state):
        pass
    assert refused.value.exit_code == 73
