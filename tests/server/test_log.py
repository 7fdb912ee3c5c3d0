"""What a running appliance logs, as its deploy file says."""

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.server.body_log import covered
from tests.server.test_admin import Socket
from tests.server.test_keys import SECRETS
from tests.server.up import PATIENCE, Up, chat, deployment

QUIET = "reload: {quiet: 10ms}"


def observing(**log: str) -> str:
    return f"observability: {{log: {json.dumps(log)}}}\n"


def environ(file: Path) -> dict[str, str]:
    return {**os.environ, "APPLIANCE_HOME": str(file.parent / ".appliance"), **SECRETS}


def exchanges(errors: list[str]) -> list[dict[str, Any]]:
    """Those that were logged, as JSON."""
    return [json.loads(line) for line in errors if '"request.bodies"' in line]


def test_the_format_and_the_level_follow_the_file_in_the_server_and_in_running_engines(tmp_path: Path) -> None:
    file = deployment(tmp_path, QUIET, more=observing(level="warning", format="json"))
    with Up.start(file) as running:
        running.wait_for("ready")
        assert running.post(chat("demo")).status_code == 200
        assert running.errors == []
        file.write_text(text := file.read_text().replace('"warning"', '"debug"'))
        running.wait_for('"config.applied"')
        assert running.post(chat("demo")).status_code == 200
        file.write_text(text + "aliases: {a: nothing}\n")
        running.wait_for('"config.rejected"')
        running.process.terminate()
        assert running.exit_code() == 0
    events = [json.loads(line)["event"] for line in running.errors]
    assert {"config.applied", "config.rejected", "engine.ends", "engine.gone"} <= set(events)
    assert "engine.ready" not in events, "that was before"


@pytest.mark.parametrize("name", ["sail", "it's"], ids=["plain", "apostrophe"])
def test_a_call_of_an_unknown_tool_is_logged_by_its_name_and_counted_without(tmp_path: Path, name: str) -> None:
    call = json.dumps({"name": name, "arguments": {}})
    (tmp_path / "calls.yaml").write_text(json.dumps({"text": f"<tool_call>{call}</tool_call>"}))
    file = deployment(tmp_path, more=observing(format="json"))
    caller = "models:\n  caller: {source: 'fake:calls.yaml', dialects: {tools: hermes_json}}\n"
    file.write_text(file.read_text().replace("models:\n", caller))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with Up.start(file) as running:
        running.wait_for("ready")
        assert running.post(chat("caller", tools=[tool])).status_code == 200
        running.wait_for("generation.call_is_text")
        counted = running.get("/metrics").text
    assert f"undeclared tool {name!r}" in next(
        reason for line in running.errors if "call_is_text" in line for reason in json.loads(line)["reasons"]
    )
    assert 'appliance_call_warnings_total{model="caller",reason="undeclared tool"} 1' in counted


def test_a_program_gets_the_warnings_about_a_file_as_an_event(tmp_path: Path) -> None:
    file = deployment(tmp_path, QUIET, more=observing(format="json"))
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "config.json").write_text('{"model_type": "zebra"}')
    (strange / "model.safetensors").write_bytes(b"")
    text = file.read_text()
    file.write_text(text.replace("models:\n", "models:\n  strange: {source: ./strange}\n"))
    with Up.start(file) as running:
        running.wait_for("ready")
        file.write_text(file.read_text() + "aliases: {a: demo}\n")
        running.wait_for('"config.applied"')
        running.process.terminate()
        assert running.exit_code() == 0
    warned = [line for line in map(json.loads, running.errors) if line["event"] == "config.warnings"]
    assert len(warned) == 2, "at the start, and with the change"
    assert "W301" in warned[0]["problems"][0]


def test_a_console_shows_the_problems_of_a_refused_file_to_people(tmp_path: Path) -> None:
    file = deployment(tmp_path, QUIET)
    with Up.start(file) as running:
        running.wait_for("ready")
        file.write_text(file.read_text() + "aliases: {a: nothing}\n")
        running.wait_for("^^^")


KEYS = "security: {keys: {ann: {secret: '${env:ann}'}}}\n"
BEARER = {"authorization": f"Bearer {SECRETS['ann']}"}
ASKS: dict[str, dict[str, Any]] = {
    "whole": chat("demo"),
    "stream": chat("demo", stream=True),
    "refused": chat("nobody"),
    "failing stream": chat("faulty", stream=True),
}
LOGGED: dict[str, tuple[dict[str, str], set[str]]] = {
    "unless asked": ({}, set()),
    "never": ({"bodies": "never"}, set()),
    "errors": ({"bodies": "errors"}, {"refused", "failing stream"}),
    "always": ({"bodies": "always"}, set(ASKS)),
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one appliance logs that is asked everything with each of these settings, one after the other."""
    file = deployment(tmp_path_factory.mktemp("log"), "reload: {watch: false}", more=observing(format="json") + KEYS)
    text = file.read_text()
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        admin = Socket(file)
        for setting, (log, _) in LOGGED.items():
            file.write_text(text.replace(observing(format="json"), observing(format="json", **log)))
            admin.ask("POST", "/reload")
            for name, body in ASKS.items():
                headers = {"x-request-id": f"{setting}.{name}".replace(" ", "-"), **BEARER}
                content = f"a prompt with {setting} {SECRETS['ann']}"
                running.post({**body, "messages": [{"role": "user", "content": content}]}, headers=headers)
        running.process.terminate()
        assert running.exit_code() == 0
    return running.errors


@pytest.mark.parametrize(("setting", "logged"), [(each, row[1]) for each, row in LOGGED.items()], ids=LOGGED)
def test_bodies_are_logged_only_where_the_file_asks_for_them(
    errors: list[str], setting: str, logged: set[str]
) -> None:
    said = "\n".join(errors)
    assert SECRETS["ann"] not in said
    prompt = f"a prompt with {setting} "
    assert (prompt in said) is bool(logged)
    requests = [(*line["request"].replace("-", " ").split("."), line) for line in exchanges(errors)]
    found = {name: line for asked_with, name, line in requests if asked_with == setting}
    assert set(found) == logged
    for name, line in found.items():
        assert json.loads(line["asked"])["messages"][0]["content"] == f"{prompt}***"
        assert (line["status"] >= 400) is (name in ("refused", "failing stream"))
    if "whole" in found:
        whole = json.loads(found["whole"]["answered"])["choices"][0]["message"]["content"]
        assert f"You said: {prompt}***" in whole
        assert found["stream"]["answered"] == f"text 0: You said: {prompt}***"
    if "refused" in found:
        assert "nobody" in found["refused"]["error"]


COVERED: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a secret": ("the key is s3cret!", ("s3cret",), "the key is ***!"),
    "one that JSON escapes": ('{"a": "x\\"y"}', ('x"y',), '{"a": "***"}'),
    "several": ("one two", ("one", "two"), "*** ***"),
    "a field named like a key": ('{"api_key": "abc", "x": 1}', (), '{"api_key": "***", "x": 1}'),
    "one with quotes in it": ('{"Authorization":"a\\"b"}', (), '{"Authorization":"***"}'),
    "fields whose names end so": ('{"OPENAI_API_KEY": "k", "client-secret": "s"}', (),
                                  '{"OPENAI_API_KEY": "***", "client-secret": "***"}'),
    "nothing": ("nothing", ("",), "nothing"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "secrets", "shown"), COVERED.values(), ids=COVERED)
def test_keys_are_covered(text: str, secrets: tuple[str, ...], shown: str) -> None:
    assert covered(text, secrets) == shown


def test_long_bodies_are_cut(tmp_path: Path) -> None:
    file = deployment(tmp_path, more=observing(format="json", bodies="always"))
    with Up.start(file) as running:
        running.wait_for("ready")
        httpx.post(f"{running.url}/v1/chat/completions", json=chat("demo", "x" * 100_000), timeout=PATIENCE)
        line = json.loads(running.wait_for('"request.bodies"'))
    assert re.search(r"x… \(\d{6} characters\)$", line["asked"])
    assert len(line["asked"]) < 70_000
