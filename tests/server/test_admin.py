"""The admin socket: what it tells, what it does, and that its document says the same."""

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from appliance.control.state_dir import StateDir, state_of
from tests.server.up import PATIENCE, Up, chat, deployment

BASE = "/admin/v1"


class Socket:
    """A client of the admin socket that holds every answer against the OpenAPI document."""

    def __init__(self, file: Path) -> None:
        self.state: StateDir = state_of(file, {"APPLIANCE_HOME": str(file.parent / ".appliance")})
        transport = httpx.HTTPTransport(uds=str(self.state.socket))
        self.client = httpx.Client(transport=transport, base_url="http://admin", timeout=PATIENCE)
        self.document = self.client.get(f"{BASE}/openapi.json").json()

    def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        response = self.client.request(method, f"{BASE}{path}", **options)
        assert response.status_code == status, response.text
        described = self.operation(method, path)["responses"][str(status)]["content"]["application/json"]["schema"]
        schema = {**described, "components": self.document["components"]}
        jsonschema.Draft202012Validator(schema).validate(response.json())
        assert status >= 400 or response.headers["etag"].strip('"').isdecimal()
        return response.json()

    def operation(self, method: str, path: str) -> Any:
        asked = path.partition("?")[0].removeprefix("/").split("/")
        for known, item in self.document["paths"].items():
            parts = known.removeprefix(f"{BASE}/").split("/")
            if len(parts) == len(asked) and all(
                a == b or b.startswith("{") for a, b in zip(asked, parts, strict=True)
            ):
                return item[method.lower()]
        raise AssertionError(f"{path} is not in the document")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return deployment(tmp_path)


@pytest.fixture
def admin(running: Up, file: Path) -> Socket:
    return Socket(file)


ALIAS = "aliases: {fast: demo}\n"
BROKEN = "aliases: {fast: nothing}\n"


def test_only_this_user_can_connect_and_the_socket_goes_away_in_the_end(admin: Socket, running: Up) -> None:
    path = admin.state.socket
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(path)) < 104
    running.signal(signal.SIGTERM)
    assert running.exit_code() == 0
    assert not path.exists()


def test_the_admin_api_is_on_its_socket_only(running: Up) -> None:
    assert running.get(f"{BASE}/status").status_code == 404


def test_the_status_is_one_document(admin: Socket, running: Up, file: Path) -> None:
    running.post(chat("demo"))
    status = admin.ask("GET", "/status")
    assert (status["generation"], status["pid"], status["file"]) == (1, running.process.pid, str(file))
    assert status["socket"] == str(admin.state.socket)
    assert (status["ready"], status["file_matches_running"], status["in_flight"]) == (True, True, 0)
    assert status["convergence"] == {"converged": True, "missing": [], "final": False}
    demo = next(model for model in status["models"] if model["name"] == "demo")
    assert (demo["state"], demo["leases"]) == ("ready", 0)
    assert demo["idle_left"] > 0
    said = {condition["type"]: condition for condition in demo["conditions"]}
    assert {name: condition["status"] for name, condition in said.items()} == {
        "Resolved": True, "Downloaded": True, "Loaded": True, "Ready": True, "Degraded": False,
    }  # fmt: skip
    assert {condition["generation"] for condition in said.values()} == {1}
    assert said["Resolved"]["since"] <= said["Loaded"]["since"]


def test_it_tells_which_token_of_a_prompt_was_not_the_one_that_is_stored(admin: Socket, running: Up) -> None:
    for text in ("once upon a time", "once upon a tide"):
        running.post({**chat("demo"), "messages": [{"role": "user", "content": text}]})
    latest, first = admin.ask("GET", "/models/demo/cache")["requests"][:2]
    assert (first["reason"], first["cached_tokens"], first["stored_token"]) == ("new", 0, None)
    assert latest["reason"] == "differs"
    assert latest["shared"] == latest["cached_tokens"] > 0
    assert latest["asked_token"] != latest["stored_token"]
    assert (latest["asked_text"] in " tide", latest["stored_text"] in " time") == (True, True)
    admin.ask("GET", "/models/nothing/cache", 404)


def test_a_failed_model_says_why(admin: Socket, running: Up) -> None:
    running.post(chat("broken"))
    [model] = [model for model in admin.ask("GET", "/status")["models"] if model["name"] == "broken"]
    degraded = next(condition for condition in model["conditions"] if condition["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == (True, "PermanentFailure")
    assert "cut off" in degraded["message"]


def test_a_dry_run_tells_the_plan_and_changes_nothing(admin: Socket, file: Path) -> None:
    before = sorted(path.name for path in admin.state.generations.iterdir())
    text = file.read_text()
    assert admin.ask("POST", "/config?dry_run=1")["empty"] is True
    plan = admin.ask("POST", "/config?dry_run=1", content=text + ALIAS)
    assert (plan["empty"], plan["generation"]) == (False, 1)
    assert [(change["sign"], change["path"]) for change in plan["changes"]] == [("+", "aliases.fast")]
    assert plan["text"].startswith("+ aliases.fast")
    assert plan["memory"]["before"] == 0
    admin.ask("POST", "/models/demo/load")
    plan = admin.ask("POST", "/config?dry_run=1", content=text.replace("  demo:", "  other:"))
    assert plan["memory"]["before"] > 0
    refused = admin.ask("POST", "/config?dry_run=1", 422, content=text + BROKEN)
    assert refused["problems"][0]["path"] == "aliases.fast"
    assert admin.ask("GET", "/status")["generation"] == 1
    assert file.read_text() == text
    assert sorted(path.name for path in admin.state.generations.iterdir()) == before


def test_nothing_but_the_file_is_a_way_to_configure(admin: Socket, file: Path) -> None:
    said = admin.ask("POST", "/config", 400, content=file.read_text() + ALIAS)
    assert "dry_run=1" in said["error"]["message"]


def test_a_reload_answers_what_became_of_the_file(admin: Socket, file: Path) -> None:
    good = file.read_text().replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:0, reload: {watch: false}")
    file.write_text(good)
    assert admin.ask("POST", "/reload")["reload"]["generation"] == 2
    assert admin.ask("POST", "/reload?wait=1")["reload"]["status"] == "unchanged"
    file.write_text(good + BROKEN)
    assert admin.ask("POST", "/reload", 422)["problems"][0]["path"] == "aliases.fast"
    status = admin.ask("GET", "/status")
    assert (status["generation"], status["last_reload"]["status"]) == (2, "rejected")
    assert status["file_matches_running"] is False
    assert status["ready"] is True
    file.write_text(good)
    assert admin.ask("POST", "/reload?wait=1")["convergence"]["converged"] is True
    assert admin.ask("GET", "/status")["file_matches_running"] is True


def test_a_plan_is_carried_out_only_as_it_was_made(admin: Socket, file: Path) -> None:
    good = file.read_text().replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:0, reload: {watch: false}")
    file.write_text(good)
    admin.ask("POST", "/reload")
    file.write_text(good + ALIAS)
    plan = admin.ask("POST", "/config?dry_run=1")
    file.write_text(good + ALIAS + "# more\n")
    assert admin.ask("POST", "/reload", 409, json={"plan": plan["id"]})["error"]["code"] == "stale_plan"
    file.write_text(good + ALIAS)
    assert admin.ask("POST", "/reload", json={"plan": plan["id"]})["reload"]["status"] == "applied"
    assert admin.ask("POST", "/reload", 409, json={"plan": plan["id"]})["error"]["code"] == "stale_plan"


WRITES = {"reload": ("/reload", None), "rollback": ("/rollback", {"generation": 1})}


@pytest.mark.parametrize(("path", "body"), WRITES.values(), ids=WRITES.keys())
def test_a_write_meant_for_another_generation_is_refused(admin: Socket, path: str, body: Any) -> None:
    headers = {"if-match": '"7"'}
    assert admin.ask("POST", path, 412, json=body, headers=headers)["error"]["code"] == "generation_moved"
    assert admin.ask("POST", path, json=body, headers={"if-match": '"1"'})["reload"]["status"] == "unchanged"


ON_MODELS = ("/models/demo/load", "/models/demo/pin", "/models/demo/unload", "/shutdown")


@pytest.mark.parametrize("path", ON_MODELS)
def test_what_is_done_to_engines_can_be_meant_for_one_generation_too(admin: Socket, path: str) -> None:
    error = admin.ask("POST", path, 412, headers={"if-match": '"7"'})["error"]
    assert (error["code"], error["message"]) == ("generation_moved", "generation 1 is running, not 7")
    assert admin.ask("GET", "/status")["generation"] == 1


def test_a_rollback_is_a_new_generation_that_stays_until_the_file_is_saved(
    admin: Socket, running: Up, file: Path
) -> None:
    good = file.read_text()
    file.write_text(good + ALIAS)
    running.until("appliance_config_generation", 2)
    assert running.post(chat("fast")).headers["x-appliance-generation"] == "2"
    assert admin.ask("POST", "/rollback", json={"generation": 1})["reload"] | {"time": 0} == {
        "status": "applied", "generation": 3, "message": "", "problems": [], "time": 0,
    }  # fmt: skip
    assert running.post(chat("fast")).status_code == 404
    assert running.metric("appliance_config_file_matches_running") == 0
    assert admin.ask("GET", "/status")["file_matches_running"] is False
    causes = [kept["cause"] for kept in admin.ask("GET", "/generations")["generations"]]
    assert causes == ["rollback to 1", "file", "start"]
    assert file.read_text() == good + ALIAS
    file.write_text(good + "aliases: {quick: demo}\n")
    running.until("appliance_config_generation", 4)
    assert running.metric("appliance_config_file_matches_running") == 1


def test_generations_are_told_one_by_one(admin: Socket) -> None:
    kept = admin.ask("GET", "/generations/1")
    assert kept["generation"]["running"] is True
    assert "demo" in kept["resolved"]["models"]
    assert admin.ask("GET", "/generations/9", 404)["error"]["code"] == "generation_not_found"
    assert admin.ask("POST", "/rollback", 404, json={"generation": 9})["error"]["code"] == "generation_not_found"


def test_models_are_loaded_and_unloaded_when_asked(admin: Socket, running: Up) -> None:
    assert admin.ask("POST", "/models/demo/load")["state"] == "ready"
    assert admin.ask("POST", "/models/demo/unload")["state"] == "draining"
    running.until('appliance_model_state{model="demo",state="cold"}', 1)
    assert admin.ask("POST", "/models/nothing/load", 404)["error"]["code"] == "model_not_found"
    assert "cut off" in admin.ask("POST", "/models/broken/load", 503)["error"]["message"]
    assert "goes on loading" in admin.ask("POST", "/models/slow/load?timeout=0", 504)["error"]["message"]


def test_a_model_in_use_is_not_unloaded(admin: Socket, running: Up) -> None:
    with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=chat("endless", stream=True), timeout=30):
        assert admin.ask("POST", "/models/endless/unload", 409)["error"]["code"] == "in_use"


@pytest.mark.parametrize("sse", [False, True], ids=["lines", "server-sent events"])
def test_events_are_told_as_they_happen(admin: Socket, running: Up, file: Path, sse: bool) -> None:
    headers = {"accept": "text/event-stream"} if sse else {}
    wanted = {"config.applied", "config.rejected", "engine.loading", "engine.ready", "engine.gone"}
    seen: dict[str, dict[str, Any]] = {}
    begun = threading.Event()

    def listen() -> None:
        with admin.client.stream("GET", f"{BASE}/events", headers=headers) as response:
            for line in response.iter_lines():
                text = line.removeprefix("data: ")
                if text.startswith("{"):
                    event = json.loads(text)
                    seen[event["event"]] = event
                    begun.set()
                if wanted <= seen.keys():
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    assert begun.wait(PATIENCE)
    good = file.read_text()
    running.post(chat("demo"))
    file.write_text(good + ALIAS)
    running.until("appliance_config_generation", 2)
    file.write_text(good + BROKEN)
    running.until("appliance_config_last_reload_success", 0)
    other = Socket(file)
    other.ask("POST", "/models/demo/unload")
    listener.join(PATIENCE)
    assert not listener.is_alive(), seen.keys()
    assert seen["config.applied"]["generation"] == 2
    assert seen["config.rejected"]["problems"][0]["path"] == "aliases.fast"
    assert {seen[f"engine.{name}"]["model"] for name in ("loading", "ready", "gone")} == {"demo"}


def test_a_file_saved_during_a_drain_is_applied(tmp_path: Path) -> None:
    file = deployment(tmp_path, "drain_timeout: 60s")
    with Up.start(file) as running:
        body = chat("endless", stream=True)
        with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=body, timeout=30) as stream:
            assert stream.status_code == 200
            running.signal(signal.SIGTERM)
            running.wait_for("server.draining")
            file.write_text(file.read_text() + ALIAS)
            running.wait_for("config.applied")
            status = Socket(file).ask("GET", "/status")
            assert (status["generation"], status["draining"], status["in_flight"]) == (2, True, 1)
            assert status["not_ready"] == ["the appliance is shutting down"]
        assert running.exit_code() == 0


def test_a_shutdown_ends_it_and_its_streams_of_events(admin: Socket, running: Up, file: Path) -> None:
    with Socket(file).client.stream("GET", f"{BASE}/events") as events:
        assert json.loads(next(events.iter_lines()))["event"] == "events.begin"
        admin.ask("POST", "/shutdown", 202)
        assert running.exit_code() == 0


BAD = {
    "a body that is no JSON": ("POST", "/reload", {"content": b"{"}),
    "an unknown field": ("POST", "/rollback", {"json": {"generation": 1, "force": True}}),
    "no generation": ("POST", "/rollback", {}),
    "a generation that is a text": ("POST", "/rollback", {"json": {"generation": "x"}}),
    "a body that is a list": ("POST", "/rollback", {"json": []}),
    "a generation that is no number": ("POST", "/reload", {"headers": {"if-match": '"x"'}}),
    "a timeout that is no number": ("GET", "/status?wait=1&timeout=soon", {}),
    "a flag that is none": ("GET", "/status?wait=maybe", {}),
}


@pytest.mark.parametrize(("method", "path", "options"), BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_told_so(admin: Socket, method: str, path: str, options: dict[str, Any]) -> None:
    message = admin.ask(method, path, 400, **options)["error"]["message"]
    assert message
    assert not re.search(r"`(int|str|bool|array)`|truncated", message), "said in words of JSON"


def test_the_document_names_every_route(admin: Socket) -> None:
    jsonschema.Draft202012Validator.check_schema({"$defs": admin.document["components"]["schemas"]})
    for path, item in admin.document["paths"].items():
        filled = path.replace("{name}", "nothing").replace("{number}", "999")
        assert admin.client.delete(filled).status_code == 405, "the path is known, the method is not"
        for operation in item.values():
            assert operation["responses"]


PLANTED = "sk-planted-6e1f"


def test_a_secret_of_the_file_is_nowhere_to_be_seen(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(PLANTED)
    secret = "security: {keys: {laptop: {secret: '${file:key}'}}}\n"
    file = deployment(tmp_path, more="x-note: '${file:key}'\n")
    with Up.start(file) as running:
        running.wait_for("ready")
        admin = Socket(file)
        answers = [admin.client.get(f"{BASE}{path}").text for path in ("/status", "/config", "/generations/1")]
        file.write_text(file.read_text() + secret + BROKEN)
        running.wait_for("config.rejected")
        answers.append(admin.client.get(f"{BASE}/status").text)
        kept = [path.read_text(errors="replace") for path in admin.state.path.rglob("*") if path.is_file()]
        running.signal(signal.SIGTERM)
        running.exit_code()
    assert PLANTED not in "\n".join([*answers, *kept, *running.lines, *running.errors])
