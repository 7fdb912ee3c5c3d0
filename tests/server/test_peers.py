"""Models of other servers, as clients see them, however those servers behave."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.control.state_dir import state_of
from tests.server.fake_peer import FakePeer
from tests.server.up import PATIENCE, Up, chat, deployment

MORE = """
security: {{keys: {{home: {{secret: home, egress: deny}}, out: {{secret: out}}, counted: {{secret: counted, limits: {{daily_tokens: 60}}}},
  some: {{secret: some, allow: ["lists/q*", afar]}}}}}}
aliases:
  afar: {{model: far/fine, sampling: {{max_tokens: 7}}}}
  coloned: "far/qwen3:8b"
  "cloud-*": far/fine
routing:
  virtual: [auto, off, over]
  rules:
    - {{name: away, when: {{model: auto}}, use: [far/fine, demo]}}
    - {{name: only away, when: {{model: off}}, use: far/fine}}
    - {{name: over an alias, when: {{model: over}}, use: [afar, demo]}}
  fallback:
    broken: {{to: [far/fine]}}
    far/fails: {{to: [demo], trip: 2, dwell: 1h}}
    "far/fails:1b": {{to: [demo]}}
    far/hangs: {{to: [demo], when: [timeout], trip: 1000}}
    far/cuts: {{to: [demo], when: [load_failed]}}
    far/cuts-early: {{to: [demo], when: [load_failed]}}
    far/long: {{to: [demo], when: [context_exceeded]}}
    far/busy: {{to: [demo], when: [overloaded]}}
    dead/m: {{to: [demo]}}
  peers:
    far: {{url: "{url}/v1", key: sesame, timeout: 1s, retries: 1, health: never}}
    lists: {{url: "{url}", health: 250ms}}
    strict: {{url: "{url}", api: openai, health: never}}
    twin: {{url: "{url}", api: appliance, health: never}}
    dead: {{url: "http://127.0.0.1:9", retries: 0, health: 250ms}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def peer() -> Iterator[FakePeer]:
    with FakePeer() as running:
        yield running


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, peer: FakePeer) -> Iterator[Up]:
    file = deployment(tmp_path_factory.mktemp("peers"), "idle_timeout: 2s, first_token_timeout: 4s",
                      more=MORE.format(url=peer.url))  # fmt: skip
    with Up.start(file) as running:
        running.wait_for("ready")
        while running.post(chat("demo")).status_code != 200:
            """Its load may take longer than a first token may."""
        yield running
    assert not [line for line in running.errors if "request.bug" in line or "Traceback" in line]


OUTCOMES: dict[str, tuple[str, int, str]] = {
    "answers": ("far/fine", 200, "far away"),
    "answers the second time": ("far/gets-better", 200, "far away"),
    "does not answer, nobody else does": ("twin/hangs-no-more", 200, "far away"),
    "fails, another answers": ("far/fails", 200, "You said: hi"),
    "hangs, another answers": ("far/hangs", 200, "You said: hi"),
    "is cut before it began, another answers": ("far/cuts-early", 200, "You said: hi"),
    "is busy, another answers": ("far/busy", 200, "You said: hi"),
    "finds it too long, another answers": ("far/long", 200, "You said: hi"),
    "cannot be reached, another answers": ("dead/m", 200, "You said: hi"),
    "whose name has a colon fails, another answers": ("far/fails:1b", 200, "You said: hi"),
    "answers to an alias": ("afar", 200, "far away"),
    "answers to an alias of a name with a colon": ("coloned", 200, "far away"),
    "answers to a glob": ("cloud-x", 200, "far away"),
    "answers to a rule over an alias": ("over", 200, "far away"),
    "fails": ("strict/fails", 502, "the peer strict says: out of luck"),
    "closes": ("strict/closes", 502, "cannot be reached"),
    "is busy": ("strict/busy", 429, "the peer strict says: too many"),
    "finds it too long": ("strict/long", 400, "prompt is too long"),
    "babbles": ("strict/babbles", 502, "cannot be read"),
    "is-no-http": ("strict/is-no-http", 502, "cannot be reached"),
    "says that it failed": ("strict/says-so", 502, "the engine burns"),
    "stalls": ("strict/stalls", 504, "first_token_timeout"),
    "stands in for a model that does not load": ("broken", 200, "far away"),
}


@pytest.mark.parametrize(("model", "status", "says"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_client_gets_an_answer_or_learns_why_not(up: Up, model: str, status: int, says: str) -> None:
    response = up.post(chat(model))
    assert response.status_code == status, response.text
    assert says in response.text
    if status == 200:
        assert response.json()["model"] == model


def test_an_answer_that_is_cut_after_its_first_text_ends_with_an_error_and_nobody_takes_over(up: Up) -> None:
    events = [line[6:] for line in up.post(chat("far/cuts", stream=True)).text.splitlines() if line]
    assert "far " in events[1]
    assert "demo" not in "".join(events)
    assert "You said" not in "".join(events)
    assert json.loads(events[-1])["error"]["code"] == "peer_failed"


def test_an_answer_is_passed_on_while_it_comes_and_a_client_that_leaves_ends_it(up: Up, peer: FakePeer) -> None:
    body = chat("far/endless", stream=True)
    with httpx.stream("POST", f"{up.url}/v1/chat/completions", json=body, timeout=PATIENCE) as response:
        texts = (line for line in response.iter_lines() if '"on "' in line)
        assert next(texts)
        assert next(texts)
        assert not peer.gone.is_set()
    assert peer.gone.wait(PATIENCE)


def test_a_model_that_keeps_failing_is_left_alone(up: Up, peer: FakePeer) -> None:
    for _ in range(3):
        assert up.post(chat("far/fails")).json()["choices"][0]["message"]["content"] == "You said: hi"
    before = peer.counts["fails"]
    assert up.post(chat("far/fails")).headers["x-appliance-model"] == "demo"
    assert peer.counts["fails"] == before


SENT: dict[str, tuple[str, dict[str, Any], dict[str, Any], set[str]]] = {
    "a compatible server": (
        "far/fine",
        {"top_k": 7, "temperature": 0.5, "max_tokens": 9, "cache_salt": "s"},
        {"top_k": 7, "temperature": 0.5, "max_tokens": 9},
        {"cache_salt", "seed", "priority", "keep_alive"},
    ),
    "OpenAI itself": (
        "strict/fine",
        {"top_k": 7, "temperature": 0.5, "max_tokens": 9, "seed": 3},
        {"temperature": 0.5, "max_completion_tokens": 9, "seed": 3},
        {"top_k", "max_tokens"},
    ),
    "another appliance": (
        "twin/fine",
        {"top_k": 7, "cache_salt": "s", "reasoning_budget": 5, "keep_alive": 60},
        {"top_k": 7, "cache_salt": "s", "reasoning_budget": 5, "keep_alive": 60.0},
        {"temperature", "seed"},
    ),
}


@pytest.mark.parametrize(("model", "asked", "sent", "kept"), SENT.values(), ids=SENT)
def test_a_peer_is_told_what_it_knows_of_and_what_nobody_decided_is_left_to_it(
    up: Up, peer: FakePeer, model: str, asked: dict[str, Any], sent: dict[str, Any], kept: set[str]
) -> None:
    response = up.post(chat(model, **asked))
    body = peer.asked[-1]
    assert {name: body.get(name) for name in sent} == sent
    assert kept.isdisjoint(body)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    stripped = set(asked) - set(body) - {"max_tokens"}
    assert all(f"{name}=stripped" in response.headers["x-appliance-params"] for name in stripped)


def test_a_peer_gets_its_key_and_not_that_of_our_client(up: Up, peer: FakePeer) -> None:
    up.post(chat("far/fine"), headers={"authorization": "Bearer out"})
    assert peer.headers["authorization"] == "Bearer sesame"
    up.post(chat("strict/fine"), headers={"authorization": "Bearer out", "x-api-key": "out", "cookie": "a=b"})
    assert not {"authorization", "x-api-key", "cookie"} & peer.headers.keys()


def test_usage_is_the_peers_and_counts_for_the_key(up: Up) -> None:
    first = up.post(chat("far/fine"), headers={"x-api-key": "counted"})
    assert first.json()["usage"]["prompt_tokens"] == 70
    assert first.json()["usage"]["completion_tokens"] == 3
    assert up.post(chat("far/fine"), headers={"x-api-key": "counted"}).status_code == 429


@pytest.mark.parametrize("model", ["far/fine", "off", "far/fails", "nobody/m", "afar", "coloned", "cloud-x"])
def test_a_key_that_may_not_leave_the_machine_does_not(up: Up, peer: FakePeer, model: str) -> None:
    before = sum(peer.counts.values())
    response = up.post(chat(model), headers={"x-api-key": "home"})
    assert response.status_code in (403, 404)
    assert sum(peer.counts.values()) == before


def test_such_a_key_gets_what_this_machine_has(up: Up, peer: FakePeer) -> None:
    before = sum(peer.counts.values())
    assert up.post(chat("auto"), headers={"x-api-key": "home"}).headers["x-appliance-model"] == "demo"
    assert up.post(chat("broken"), headers={"x-api-key": "home"}).status_code == 503
    assert sum(peer.counts.values()) == before


def listed(up: Up, key: str | None = None) -> set[str]:
    headers = {} if key is None else {"x-api-key": key}
    found = httpx.get(f"{up.url}/v1/models", headers=headers, timeout=PATIENCE).json()["data"]
    return {model["id"] for model in found if model.get("state") == "elsewhere"}


LISTED: dict[str, tuple[str | None, set[str]]] = {
    "nobody's": (None, {"lists/fine", "lists/qwen3:8b", "afar", "coloned"}),
    "a key for all": ("out", {"lists/fine", "lists/qwen3:8b", "afar", "coloned"}),
    "a key for some": ("some", {"lists/qwen3:8b", "afar"}),
    "a key that may not leave": ("home", set()),
}


@pytest.mark.parametrize(("key", "names"), LISTED.values(), ids=LISTED)
def test_models_that_peers_list_are_listed_to_those_who_may_ask_for_them(
    up: Up, key: str | None, names: set[str]
) -> None:
    end = time.monotonic() + PATIENCE
    while "lists/fine" not in listed(up):
        assert time.monotonic() < end, "the peer was never asked"
    assert listed(up, key) == names


@pytest.mark.parametrize(
    ("name", "key", "status"),
    [("lists/fine", None, 200), ("far/unlisted", None, 200), ("afar", "some", 200), ("afar", "home", 403),
     ("far/fine", "home", 403), ("lists/fine", "some", 403), ("off", "home", 200)],
)  # fmt: skip
def test_the_card_of_a_peers_model(up: Up, name: str, key: str | None, status: int) -> None:
    headers = {} if key is None else {"x-api-key": key}
    answer = httpx.get(f"{up.url}/v1/models/{name}", headers=headers, timeout=PATIENCE)
    assert answer.status_code == status
    if status == 200 and name != "off":
        assert (answer.json()["id"], answer.json()["state"]) == (name, "elsewhere")


def test_what_an_alias_lays_over_a_peers_model_is_told_to_it(up: Up, peer: FakePeer) -> None:
    up.post(chat("afar"))
    assert (peer.asked[-1]["model"], peer.asked[-1]["max_tokens"]) == ("fine", 7)


def test_names_that_clients_make_up_are_not_counted_one_by_one(up: Up) -> None:
    for number in range(20):
        assert up.post(chat(f"far/made-up-{number}")).status_code == 200
    assert up.post(chat("far/fine")).status_code == 200
    metrics = up.get("/metrics").text
    assert "made-up" not in metrics
    assert up.metric('appliance_requests_total{endpoint="/v1/chat/completions",model="far/other",status="200"}') >= 20
    assert up.metric('appliance_requests_total{endpoint="/v1/chat/completions",model="far/fine",status="200"}') >= 1


def test_what_is_not_well_is_known(up: Up) -> None:
    up.until('appliance_peer_up{peer="dead"}', 0)
    assert up.metric('appliance_peer_up{peer="far"}') in (0, 1)


def test_a_request_does_not_go_round_in_circles(up: Up) -> None:
    response = up.post(chat("twin/fine"), headers={"x-appliance-hops": "4"})
    assert (response.status_code, "name each other" in response.text) == (503, True)


def test_the_latest_decisions_are_told(up: Up, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = Path(next(line for line in up.process.args if line.endswith("deploy.yaml")))  # type: ignore[union-attr]
    asked = up.post(chat("dead/m"))
    socket = file.parent / ".appliance" / "state"
    found = next(socket.rglob("*.sock"), None) or state_of(file).socket
    transport = httpx.HTTPTransport(uds=str(found))
    with httpx.Client(transport=transport, base_url="http://admin") as admin:
        latest = admin.get("/admin/v1/decisions").json()["decisions"][0]
    assert (latest["id"], latest["asked"]) == (asked.headers["x-request-id"], "dead/m")
    assert latest["served_by"] == "demo"
    assert latest["changes"][-1] == "falls back to demo"


def test_prompts_of_peers_are_not_counted_here(up: Up) -> None:
    body = {"model": "far/fine", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    assert up.post(body, "/v1/messages/count_tokens").status_code == 400
