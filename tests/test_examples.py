"""Every example is what it says: good apart from keys this version lacks, and the one for CI really runs."""

from collections.abc import Collection
from pathlib import Path

import pytest

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.diff import diff
from appliance.config.problem import Rejected
from tests.server.up import Up, chat

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*.yaml") if ".script." not in path.name)
NOT_AVAILABLE = "E110"
WHOLE = {"ci-linux-fakes", "deploy", "laptop"}
"""Examples that need nothing this version lacks."""

KEYS = {name: f"of {name}" for name in ("TEAM_KEY", "BATCH_KEY", "OFFICE_KEY", "CONFIDENTIAL_KEY", "CLOUD_KEY")}


def read(path: Path, tolerate: Collection[str] = ()) -> Deployment:
    """On a machine with 128 GiB that has none of the models yet."""
    environ = {"HOME": "/home/user", **KEYS}
    return load.read(path, environ=environ, inspect=lambda *_: None, memory_bytes=128 * 2**30, tolerate=tolerate)


def test_there_is_an_example_for_every_situation() -> None:
    assert {path.stem for path in FILES} == {*WHOLE, "studio-team", "coding-agents", "private-and-cloud"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_has_no_problem_but_keys_that_are_not_available(path: Path) -> None:
    try:
        deployment = read(path)
    except Rejected as rejected:
        assert path.stem not in WHOLE, str(rejected)
        assert {problem.code for problem in rejected.problems} == {NOT_AVAILABLE}, str(rejected)
    else:
        assert not deployment.warnings


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("# ")


def test_the_example_for_ci_runs() -> None:
    with Up.start(EXAMPLES / "ci-linux-fakes.yaml", env={**KEYS, "PORT": "0", "HOME": "/tmp"}) as running:
        running.wait_for("ready")
        answer = running.post(chat("gpt-4o", "hello there")).json()
        assert answer["choices"][0]["message"]["content"] == "You said: hello there"
        assert running.post(chat("echo", no_such_field=1)).status_code == 400
        running.process.terminate()
        assert running.exit_code() == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_example_becomes_every_other_by_a_plan(path: Path) -> None:
    first, other = (read(each, tolerate={NOT_AVAILABLE}) for each in (EXAMPLES / "deploy.yaml", path))
    lines = str(diff(first, other)).splitlines()
    added = {line.removeprefix("+ models.") for line in lines if line.startswith("+ models.")}
    assert added == other.models.keys() - first.models.keys()
    assert not diff(other, read(path, tolerate={NOT_AVAILABLE}))
