"""State of deploy files that are gone is removed, and no other."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.control.leftover import UNUSED_SECONDS, remove_leftovers
from appliance.control.state_dir import StateDir, held, owner, state_of

NOW = 2e9
LONG_AGO, LATELY = NOW - UNUSED_SECONDS - 1, NOW - UNUSED_SECONDS + 1


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"APPLIANCE_HOME": str(tmp_path / "home")}


@pytest.fixture
def served(tmp_path: Path, environ: dict[str, str]) -> Callable[[str, float], StateDir]:
    """Makes the state of a file that was last served at a time."""

    def serve(name: str, at: float) -> StateDir:
        file = tmp_path / name
        file.write_text("version: 1\n")
        state = state_of(file, environ)
        with held(state):
            (state.generations / "00000001.generation").write_text("something")
        for path in (*state.path.iterdir(), state.path):
            os.utime(path, (at, at))
        return state

    return serve


@pytest.mark.parametrize(
    ("gone", "at", "removed"),
    [
        pytest.param(True, LONG_AGO, True, id="gone and long unused"),
        pytest.param(True, LATELY, False, id="gone but used lately"),
        pytest.param(False, LONG_AGO, False, id="there but long unused"),
    ],
)
def test_only_what_is_gone_and_long_unused_is_removed(
    served: Callable[[str, float], StateDir], gone: bool, at: float, removed: bool
) -> None:
    state = served("deploy.yaml", at)
    if gone:
        state.file.unlink()
    assert remove_leftovers(state.path.parent, NOW) == ([state.file] if removed else [])
    assert state.path.exists() != removed


def test_a_link_that_leads_nowhere_is_a_file_that_is_there(served: Callable[[str, float], StateDir]) -> None:
    state = served("deploy.yaml", LONG_AGO)
    state.file.unlink()
    state.file.symlink_to("/nowhere/deploy.yaml")
    assert remove_leftovers(state.path.parent, NOW) == []


def test_what_is_being_served_stays(served: Callable[[str, float], StateDir]) -> None:
    state = served("deploy.yaml", LONG_AGO)
    with held(state):
        state.file.unlink()
        for path in (*state.path.iterdir(), state.path):
            os.utime(path, (LONG_AGO, LONG_AGO))
        assert remove_leftovers(state.path.parent, NOW) == []
        assert owner(state) == os.getpid()


def test_names_of_links_go_with_what_they_led_to(
    tmp_path: Path, environ: dict[str, str], served: Callable[[str, float], StateDir]
) -> None:
    real = served("real.yaml", LONG_AGO)
    link = tmp_path / "link.yaml"
    link.symlink_to(real.file)
    linked = state_of(link, environ)
    with held(linked):
        pass
    assert linked.alias.exists()
    link.unlink()
    for path in (*real.path.iterdir(), real.path):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert remove_leftovers(real.path.parent, NOW) == [], "the file itself is there"
    real.file.unlink()
    assert remove_leftovers(real.path.parent, NOW) == [link]
    assert not linked.alias.exists()


def test_where_nothing_was_ever_kept_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert remove_leftovers(tmp_path / "nothing", NOW) == []
