"""Every example is good as it stands, says what it is for, and serves: with fake models where it has real ones."""

import re
from pathlib import Path

import pytest

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.diff import diff
from tests.server.up import Up, chat

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGES = (EXAMPLES.parent / "README.md", *sorted((EXAMPLES.parent / "docs").glob("*.md")))
FILES = sorted(path for path in EXAMPLES.glob("*.yaml") if ".script." not in path.name)
SITUATIONS = {"ci-linux-fakes", "deploy", "laptop", "studio-team", "coding-agents", "private-and-cloud"}
KEYS = {name: f"of {name}" for name in ("TEAM_KEY", "BATCH_KEY", "OFFICE_KEY", "CONFIDENTIAL_KEY", "CLOUD_KEY")}


def read(path: Path) -> Deployment:
    """On a machine with 128 GiB that has none of the models yet."""
    environ = {"HOME": "/home/user", **KEYS}
    return load.read(path, environ=environ, inspect=lambda *_: None, memory_bytes=128 * 2**30)


def test_there_is_an_example_for_every_situation() -> None:
    assert {path.stem for path in FILES} == SITUATIONS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_has_no_problem(path: Path) -> None:
    assert not read(path).warnings


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for_and_a_page_names_it(path: Path) -> None:
    assert path.read_text().startswith("# ")
    assert any(f"examples/{path.name}" in page.read_text() for page in PAGES)


ASKED = {
    "laptop": ("", ["chat", "small", "chat:terse", "quick", "gpt-5", "gpt-5-mini"]),
    "studio-team": ("of TEAM_KEY", ["big", "fast", "long", "coder", "extract", "auto", "nightly"]),
    "coding-agents": ("", ["coder", "small", "claude-haiku-5", "claude-opus-5", "gpt-5", "gpt-5-mini", "review"]),
    "private-and-cloud": ("of CONFIDENTIAL_KEY", ["local", "auto"]),
}


@pytest.mark.parametrize(("name", "key", "asked"), [(n, *row) for n, row in ASKED.items()], ids=ASKED)
def test_an_example_serves_the_names_it_gives(name: str, key: str, asked: list[str], tmp_path: Path) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    text, models = re.subn(r"(?m)^    source: .+$", "    source: fake:./says.yaml", text)
    text = re.sub(r"(?m)^  listen: .+$", "  listen: 127.0.0.1:0", text)
    # What fits the machine it is written for need not fit one that tests.
    text = re.sub(r"memory: \d+GiB", "memory: 64MiB", text).replace("keep_free: 8GiB", "keep_free: 64MiB")
    file = tmp_path / "deploy.yaml"
    file.write_text(text)
    (tmp_path / "says.yaml").write_text("text: hello\n")
    assert models
    environ = {**KEYS, "HOME": str(tmp_path)}
    with Up.start(file, env=environ) as running:
        running.wait_for("ready")
        bearer = {"authorization": f"Bearer {key}"} if key else {}
        for each in asked:
            answer = running.post(chat(each), headers=bearer).json()
            assert answer["choices"][0]["message"]["content"] == "hello", (each, answer)


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
    first, other = (read(each) for each in (EXAMPLES / "deploy.yaml", path))
    lines = str(diff(first, other)).splitlines()
    added = {line.removeprefix("+ models.") for line in lines if line.startswith("+ models.")}
    assert added == other.models.keys() - first.models.keys()
    assert not diff(other, read(path))
