"""How long a request keeps its model, asked over HTTP."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from tests.server.test_admin import Socket
from tests.server.test_keys import SECRETS, ask, environ
from tests.server.up import PATIENCE, Up, chat, deployment

KEYS = """
security:
  keys:
    ann: {secret: "${env:ann}", keep_alive: {max: 30m}}
    strict: {secret: "${env:strict}", strict_params: true}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deployment(tmp_path_factory.mktemp("keep"), more=KEYS)


@pytest.fixture(scope="module")
def keeping(file: Path) -> Iterator[Up]:
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        yield running


@pytest.fixture(scope="module")
def admin(file: Path, keeping: Up) -> Socket:
    return Socket(file)


def state(admin: Socket) -> dict[str, Any]:
    [found] = [each for each in admin.ask("GET", "/status")["models"] if each["name"] == "demo"]
    return dict(found)


def until_cold(admin: Socket) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while (found := state(admin))["state"] != "cold":
        assert time.monotonic() < end
    return found


def test_a_model_is_kept_as_long_as_was_asked_and_that_is_said(keeping: Up, admin: Socket) -> None:
    answer = keeping.post(chat("demo", keep_alive="2h"))
    assert "x-appliance-params" not in answer.headers
    assert "x-appliance-ignored" not in answer.headers
    assert 7100 < state(admin)["idle_left"] <= 7200
    assert state(admin)["drift"] == ["kept 2h after its last request, which asked for that"]
    keeping.post(chat("demo"))
    assert state(admin)["drift"] == [], "the request that came last says nothing"


def test_a_key_bounds_it_and_the_client_is_told(keeping: Up, admin: Socket) -> None:
    answer = ask(keeping, "ann", keep_alive=-1)
    assert answer.headers["x-appliance-params"] == "keep_alive=clamped(never>30m)"
    assert 1700 < state(admin)["idle_left"] <= 1800


def test_a_strict_key_is_refused(keeping: Up, admin: Socket) -> None:
    answer = ask(keeping, "strict", keep_alive="2h")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "keep_alive")


def test_nothing_unloads_at_once(keeping: Up, admin: Socket) -> None:
    keeping.post(chat("demo", keep_alive=0))
    assert until_cold(admin)["drift"] == []


def test_ollamas_library_loads_and_unloads(keeping: Up, admin: Socket) -> None:
    client = ollama.Client(host=keeping.url)
    assert client.generate("demo", keep_alive="1h").done_reason == "load"
    assert state(admin)["drift"] == ["kept 1h after its last request, which asked for that"]
    assert client.generate("demo", keep_alive=0).done_reason == "unload"
    until_cold(admin)


def test_a_model_that_is_not_in_memory_is_not_loaded_to_be_unloaded(keeping: Up) -> None:
    assert ollama.Client(host=keeping.url).chat("never", keep_alive=0).done_reason == "unload"


def test_a_wish_that_is_none_is_refused(keeping: Up) -> None:
    answer: httpx.Response = keeping.post(chat("demo", keep_alive="soon"))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "keep_alive")
    assert SECRETS["ann"] not in answer.text
