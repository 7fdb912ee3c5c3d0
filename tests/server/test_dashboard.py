"""The page for people, and the paths the deploy file chooses for it and for the metrics."""

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from appliance.config.operations import API
from appliance.server.admin_types import StatusAnswer
from appliance.server.app import DELETES, READS, WRITES
from appliance.server.dashboard import page
from appliance.server.openapi import descriptions
from tests.server.test_keys import KEYS, SECRETS, environ
from tests.server.up import PATIENCE, Up, chat, deployment

HOSTILE = "<script>alert(1)</script>\"'&"
VOID = {"meta"}


class Page(HTMLParser):
    """Elements and words of a page, every element closed in its order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def problem(**values: Any) -> dict[str, Any]:
    place = {"file": "deploy.yaml", "line": 12, "column": 5, "end_column": 9, "path": "models.big.idel"}
    return {"code": "E102", "severity": "error", **place, "message": "unknown key", "hint": "write idle", **values}


def model(**values: Any) -> dict[str, Any]:
    idle: dict[str, Any] = {"pid": None, "leases": 0, "waiting": 0, "idle_left": None, "bytes": 0, "load": None}
    return {"name": "m", "state": "cold", **idle, "retired": False, "download": None, "conditions": [], **values}


def condition(type: str, status: bool, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "message": message, "since": 0.0, "generation": 1}


def status(**values: Any) -> StatusAnswer:
    last = {"status": "applied", "generation": 3, "time": 0.0, "message": "", "problems": []}
    fine = {"convergence": {"converged": True, "missing": [], "final": False}, "ready": True, "not_ready": []}
    calm = {"draining": False, "in_flight": 0, "pending_restart": [], "models": [], "file_matches_running": True}
    known = {"version": "1", "pid": 7, "started": 0, "file": "deploy.yaml", "generation": 3, "last_reload": last}
    known["socket"] = "admin.sock"
    return msgspec.convert({**known, **fine, **calm, **values}, StatusAnswer)


def refused(*problems: dict[str, Any]) -> dict[str, Any]:
    last = {"status": "rejected", "generation": 3, "time": 0.0, "message": "1 problem", "problems": list(problems)}
    return {"last_reload": last, "file_matches_running": False}


SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "generation": ({}, "3, applied 1970-01-01 00:00:00 UTC"),
    "a refused file": (refused(problem()), "deploy.yaml:12:5 error[E102] models.big.idel: unknown key; write idle"),
    "what goes on instead": (refused(problem()), "The deploy file was refused; generation 3 goes on"),
    "another file": ({"file_matches_running": False}, "The deploy file is not what runs, which is generation 3"),
    "readiness": ({"ready": False, "not_ready": ["big is loading"]}, "no: big is loading"),
    "what is missing": ({"convergence": {"converged": False, "missing": ["big: x"], "final": True}}, "big: x"),
    "generations": ({"in_flight": 41}, "41"),
    "memory": (
        {"memory": {"budget": 4 << 30, "kv_reserve": 1 << 30, "planned": 2 << 30, "taken": 3 << 30}},
        "2.0 GiB planned, 3.0 GiB taken, of 4.0 GiB (1.0 GiB of it for rows and prefixes)",
    ),
    "settings that wait": ({"pending_restart": ["server.x"]}, "server.x"),
    "a model": ({"models": [model(name="big", state="ready", pid=4711, bytes=1 << 30)]}, "big ready 4711"),
    "who waits": ({"models": [model(waiting=3, position=2, waits_for="memory")]}, "3 #2 in line for memory"),
    "idle time": ({"models": [model(idle_left=90.4)]}, "90s"),
    "a load": ({"models": [model(load={"phase": "weights", "done": 0.5, "total": 1.0})]}, "weights 50%"),
    "a download": ({"models": [model(download={"phase": "download", "done": 1, "total": 4})]}, "download 25%"),
    "a download of no known size": ({"models": [model(download={"phase": "x", "done": 1, "total": 0})]}, "cold x"),
    "drift": ({"models": [model(drift=["pinned by hand"])]}, "pinned by hand"),
    "what a process takes": ({"models": [model(taken=1 << 30)]}, "1.0 GiB taken"),
    "what an engine holds": (
        {"models": [model(gauges={"kv_bytes": 1 << 20, "prefix_bytes": 1 << 30})]},
        "1.0 MiB of answers, 1.0 GiB of known prompts",
    ),
    "a leaving engine": ({"models": [model(retired=True)]}, "leaving"),
    "a bad condition": (
        {"models": [model(conditions=[condition("Degraded", True, "Deaths", "died twice")])]},
        "Degraded: Deaths died twice, since 1970-01-01 00:00:00 UTC",
    ),
    "events": ({"recent": [{"event": "engine.died", "time": 1.0, "model": "big"}]}, "engine.died  model=big"),
}


@pytest.mark.parametrize(("values", "words"), SHOWN.values(), ids=SHOWN)
def test_the_page_shows(values: dict[str, Any], words: str) -> None:
    assert words in Page(page(status(**values)).decode()).text


def test_nothing_is_red_while_all_is_well() -> None:
    fine = [condition("Ready", True, "OnDemand"), condition("Degraded", False, "NoFailure")]
    fine.append(condition("Loaded", False, "Cold"))
    shown = Page(page(status(models=[model(conditions=fine)])).decode())
    assert not {"refused", "bad"} & {attrs.get("class") for _, attrs in shown.elements}


def test_what_others_named_is_text() -> None:
    conditions = [condition(HOSTILE, True, HOSTILE), condition("Ready", False, HOSTILE, HOSTILE)]
    progress = {"phase": HOSTILE, "done": 0.0, "total": 0.0}
    hostile = model(name=HOSTILE, drift=[HOSTILE], waits_for=HOSTILE, conditions=conditions, load=progress)
    texts = dict.fromkeys(("file", "path", "message", "hint", "code"), HOSTILE)
    values = {
        **refused(problem(**texts)), "models": [hostile], "file": HOSTILE, "ready": False, "not_ready": [HOSTILE],
        "pending_restart": [HOSTILE], "recent": [{"event": HOSTILE, "time": 0.0, HOSTILE: HOSTILE}],
        "version": HOSTILE,
        "convergence": {"converged": False, "missing": [HOSTILE], "final": False},
    }  # fmt: skip
    plain, shown = Page(page(status(**refused(problem()))).decode()), Page(page(status(**values)).decode())
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in plain.elements} | {
        "div",
        "span",
        "b",
        "td",
        "pre",
    }
    assert shown.text.count(HOSTILE) >= 16


def test_the_page_runs_and_loads_nothing(up: Up) -> None:
    answer = up.get("/ui")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    shown = Page(answer.text)
    assert not {"script", "link", "img", "iframe", "form"} & {tag for tag, _ in shown.elements}
    assert not [attrs for _, attrs in shown.elements if {"src", "href", "onload", "style"} & set(attrs)]
    assert "demo" in shown.words
    assert httpx.head(f"{up.url}/ui").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/ui", 405), ("DELETE", "/metrics", 405), ("GET", "/ui/", 200), ("GET", "/metrics/", 200),
        ("GET", "/ui/x", 404), ("POST", "/nothing", 404), ("POST", "/v1/models", 405), ("GET", "/UI", 404),
    ],
)  # fmt: skip
def test_other_methods_and_paths_are_refused(up: Up, method: str, path: str, code: int) -> None:
    answer = httpx.request(method, f"{up.url}{path}", timeout=PATIENCE)
    assert answer.status_code == code
    assert code != 405 or answer.headers["allow"].startswith("GET")
    assert code < 400 or answer.json()["error"]["message"]


PAGES = {
    "a foreign name for this machine": {"host": "evil.example"},
    "a page from elsewhere": {"origin": "https://evil.example"},
}


@pytest.mark.parametrize("headers", PAGES.values(), ids=PAGES)
def test_what_needs_no_key_is_not_shown_to_pages_of_others(up: Up, headers: dict[str, str]) -> None:
    answer = httpx.get(f"{up.url}/ui", headers=headers, timeout=PATIENCE)
    assert answer.status_code in (403, 421)
    assert "demo" not in answer.text


def test_the_api_is_known_to_whoever_chooses_a_path() -> None:
    tables = [READS, WRITES, DELETES, descriptions("1", READS, WRITES, DELETES)]
    begins = {re.match(r"/[^/]*", path)[0] for table in tables for path in table}  # type: ignore[index]
    assert begins == {"/", *API}


def test_both_paths_follow_the_file(tmp_path: Path) -> None:
    file = deployment(tmp_path, "reload: {quiet: 10ms}", more="observability: {dashboard: {path: /board}}\n")
    with Up.start(file) as running:
        running.wait_for("ready")
        assert [running.get(path).status_code for path in ("/board", "/ui", "/metrics")] == [200, 404, 200]
        deployment(tmp_path, more="observability: {metrics: {path: /numbers}}\n")
        running.wait_for("config.applied")
        assert [running.get(path).status_code for path in ("/board", "/ui", "/metrics")] == [404, 200, 404]
        assert "appliance_config_generation 2" in running.get("/numbers").text


def test_a_refused_file_is_shown_until_it_is_right(tmp_path: Path) -> None:
    file = deployment(tmp_path, "reload: {quiet: 10ms}")
    good = file.read_text()
    with Up.start(file) as running:
        running.wait_for("ready")
        file.write_text(f"{good}aliases: {{fast: nothing}}\n")
        running.wait_for("config.rejected")
        shown = Page(running.get("/ui").text)
        assert "The deploy file was refused; generation 1 goes on" in shown.text
        assert re.search(r"deploy\.yaml:\d+:17 error\[E201\] aliases\.fast: ", shown.text)
        assert running.post(chat("demo")).status_code == 200
        file.write_text(f"{good}aliases: {{fast: demo}}\n")
        running.wait_for("config.applied")
        assert "was refused" not in running.get("/ui").text


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    file = deployment(tmp_path_factory.mktemp("board"), listen="0.0.0.0:0", more=KEYS)
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        yield running


def basic(secret: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'me:{secret}'.encode()).decode()}"}


ASKED: dict[str, tuple[dict[str, str], int]] = {
    "nothing": ({}, 401),
    "the key as a password": (basic(SECRETS["ann"]), 200),
    "the key as a bearer": ({"authorization": f"Bearer {SECRETS['ann']}"}, 200),
    "a wrong password": (basic("sk-wrong"), 401),
    "an empty password": (basic(""), 401),
    "no base64": ({"authorization": "Basic ==="}, 401),
    "an expired key": (basic(SECRETS["old"]), 401),
    "a key of some models": (basic(SECRETS["ci"]), 403),
}


@pytest.mark.parametrize(("headers", "code"), ASKED.values(), ids=ASKED)
def test_a_browser_shows_a_key_as_a_password(guarded: Up, headers: dict[str, str], code: int) -> None:
    answer = httpx.get(f"http://127.0.0.1:{guarded.port}/ui", headers=headers, timeout=PATIENCE)
    assert answer.status_code == code
    assert (code == 401) is answer.headers.get("www-authenticate", "").startswith("Basic ")
    assert code == 200 or "demo" not in answer.text


def test_a_password_opens_nothing_else(guarded: Up) -> None:
    answer = httpx.get(f"http://127.0.0.1:{guarded.port}/v1/models", headers=basic(SECRETS["ann"]), timeout=PATIENCE)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
