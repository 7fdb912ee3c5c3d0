"""A key of the language that this version cannot serve is a problem for every command alike."""

from pathlib import Path
from typing import Any

import pytest

from appliance.cli import run
from appliance.config import load
from tests.server.up import Up

MODEL = "models: {m: {source: 'fake:m.yaml'}}\n"
MISSING = [
    (path, schema["examples"][0])
    for path, schema in load.schema("deploy").properties()
    if schema.get("x-available") is False and path[0] in ("server", "observability", "storage")
]


def with_key(path: tuple[str, ...], value: Any) -> str:
    """A deploy file in which nothing is wrong but this key."""
    *parents, last = path
    opened = "".join(f"{parent}: {{" for parent in parents)
    return f"version: 1\n{MODEL}{opened}{last}: {value!r}{'}' * len(parents)}\n"


@pytest.mark.skipif(not MISSING, reason="this version serves every key")
def test_validate_up_plan_and_reload_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / ".appliance"))
    (tmp_path / "m.yaml").write_text("text: hello\n")
    path, example = MISSING[0]
    file, bad = tmp_path / "deploy.yaml", with_key(path, example)
    says = f"error[E110] {'.'.join(path)}: not available in this version"
    file.write_text(bad)
    with Up.start(file) as running:
        assert running.exit_code() == 78
    assert says in "\n".join(running.errors)
    file.write_text(f"version: 1\n{MODEL}server: {{listen: 127.0.0.1:0, reload: {{watch: false}}}}\n")
    with Up.start(file) as running:
        running.wait_for("ready")
        file.write_text(bad)
        for command in ("validate", "plan", "reload"):
            assert run([command, "-f", str(file)]) == 78
            captured = capsys.readouterr()
            assert says in captured.out + captured.err
        assert running.metric("appliance_config_generation") == 1
