"""`appliance usage`, of a real appliance that runs, was killed, or was never there."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.up import PATIENCE, Up, chat, deployment

KEYS = "security: {keys: {ci: {secret: sk-ci-0123456789abcdef}, ann: {secret: sk-ann-0123456789abcdef}}}\n"


def run(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "APPLIANCE_HOME": str(file.parent / ".appliance"), "TZ": "UTC"}
    command = [sys.executable, "-m", "appliance", "usage", "-f", str(file), *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def counts(usage: dict[str, Any], requests: int = 1) -> dict[str, int]:
    return {
        "requests": requests,
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "completion_tokens": usage["completion_tokens"],
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """A deploy file whose appliance has answered and was killed, and what has to be said of it."""
    file = deployment(tmp_path_factory.mktemp("usage"), more=KEYS)
    # Faster than its tokens can be read one by one: how many came is counted all the same.
    (file.parent / "faulty.yaml").write_text("text: 'on and on '\nendless: true\nfault_after: 300\n")
    with Up.start(file) as up:
        ci, none = {"authorization": "Bearer sk-ci-0123456789abcdef"}, up.post(chat("demo")).json()["usage"]
        one = up.post(chat("demo", "hello there", n=2), headers=ci).json()["usage"]
        two = up.post(chat("values"), headers=ci).json()["usage"]
        assert up.post(chat("faulty"), headers={"x-api-key": "sk-ann-0123456789abcdef"}).status_code == 500
        assert up.post(chat("nobody"), headers=ci).status_code == 404
        expected = [
            {"key": None, "model": "demo", **counts(none)},
            {"key": "ann", "model": "faulty", "requests": 1},
            {"key": "ci", "model": "demo", **counts(one)},
            {"key": "ci", "model": "values", **counts(two)},
        ]
        end = time.monotonic() + PATIENCE
        while len(json.loads(run(file, "--json").stdout)["data"]) < len(expected):
            assert time.monotonic() < end
        up.signal(signal.SIGKILL)
        up.exit_code()
        yield file, expected


def test_requests_and_tokens_are_told_by_key_and_model(told: tuple[Path, list[dict[str, Any]]]) -> None:
    file, expected = told
    found = json.loads(run(file, "--json").stdout)
    assert (found["kind"], found["ok"]) == ("usage", True)
    assert [{name: row[name] for name in like} for row, like in zip(found["data"], expected, strict=True)] == expected
    broken = found["data"][1]
    assert (broken["prompt_tokens"] > 0, broken["completion_tokens"]) == (True, 300)


def test_a_table_and_csv_say_the_same(told: tuple[Path, list[dict[str, Any]]]) -> None:
    file, expected = told
    head, *rows = [line.split() for line in run(file).stdout.splitlines()]
    assert head == ["KEY", "MODEL", "REQUESTS", "PROMPT", "CACHED", "COMPLETION"]
    assert [row[:3] for row in rows] == [[each["key"] or "-", each["model"], "1"] for each in expected]
    read = list(csv.DictReader(run(file, "--csv").stdout.splitlines()))
    assert [list(row.values()) for row in read] == [["" if row[0] == "-" else row[0], *row[1:]] for row in rows]


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        pytest.param(("--since", "1h"), 4, id="since an hour ago"),
        pytest.param(("--since", "2020-01-01", "--until", "2020-02-01"), 0, id="in a month of the past"),
        pytest.param(("--until", "2d"), 0, id="until two days ago"),
        pytest.param(("--since", "2999-01-01T10:00+02:00"), 0, id="since a time to come"),
        pytest.param(("--key", "ci"), 2, id="of a key"),
        pytest.param(("--key", "ci", "--model", "demo"), 1, id="of a key and a model"),
        pytest.param(("--per", "month"), 4, id="by month"),
    ],
)
def test_what_is_told_can_be_narrowed(
    told: tuple[Path, list[dict[str, Any]]], arguments: tuple[str, ...], rows: int
) -> None:
    found = json.loads(run(told[0], "--json", *arguments).stdout)["data"]
    assert len(found) == rows
    assert all(row["month"].startswith("20") for row in found if "--per" in arguments)


def test_nothing_is_said_where_nothing_was(tmp_path: Path) -> None:
    done = run(tmp_path / "deploy.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing was used yet" in done.stderr


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "deploy.yaml", "--since", "yesterday")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'yesterday' is no time; write 2026-11-29" in done.stderr
