"""Virtual names, fallbacks and full queues, on a real appliance."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.up import Up, chat, deployment, raw_post

MORE = """
aliases: {limited: {model: broken, policy: {clamp: {max_tokens: [1, 3]}}}}
routing:
  unknown_model: demo
  virtual: [auto, nowhere]
  rules:
    - {name: tools, when: {model: auto, has: [tools]}, use: agent}
    - {name: track, when: {model: auto, header: {x-track: "b*"}}, use: slow}
    - {name: long, when: {model: auto, prompt_tokens: ">200"}, use: [{to: demo, sampling: {max_tokens: 2}}]}
    - {name: rest, when: {model: auto}, use: [demo, slow]}
    - {name: key, when: {model: nowhere, has: [audio]}, use: demo}
  fallback:
    broken: {to: [demo]}
    fussy: {to: [demo], when: [context_exceeded]}
    faulty: {to: [demo]}
"""
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    file = deployment(tmp_path_factory.mktemp("routing"), more=MORE)
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running


CASES: dict[str, tuple[dict[str, Any], dict[str, str], str, str | None]] = {
    "a model": (chat("demo"), {}, "demo", None),
    "nothing special": (chat("auto"), {}, "demo", "rest"),
    "tools": (chat("auto", tools=[TOOL]), {}, "agent", "tools"),
    "a header": (chat("auto"), {"X-Track": "beta"}, "slow", "track"),
    "a long prompt": (chat("auto", "word " * 300), {}, "demo", "long"),
    "a name nobody has": (chat("gpt-9"), {}, "demo", None),
    "a model that does not load": (chat("broken"), {}, "demo", None),
    "a prompt that does not fit": (chat("fussy", "word " * 100), {}, "demo", None),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("body", "headers", "model", "rule"), CASES.values(), ids=CASES)
def test_the_answer_says_what_served_it_and_is_named_as_asked(
    routed: Up, body: dict[str, Any], headers: dict[str, str], model: str, rule: str | None, stream: bool
) -> None:
    response = routed.post({**body, "stream": stream}, headers=headers)
    assert response.status_code == 200, response.text
    assert (response.headers["x-appliance-model"], response.headers.get("x-appliance-route")) == (model, rule)
    assert f'"model":"{body["model"]}"' in response.text.replace('": "', '":"')


def test_what_a_rule_lays_over_its_model_holds(routed: Up) -> None:
    assert routed.post(chat("auto", "word " * 300)).json()["usage"]["completion_tokens"] == 2


def test_what_an_alias_forbids_is_forbidden_behind_a_fallback(routed: Up) -> None:
    response = routed.post(chat("limited", max_tokens=50))
    assert response.headers["x-appliance-model"] == "demo"
    assert response.json()["usage"]["completion_tokens"] <= 3


def test_a_failure_after_the_first_byte_stays_a_failure(routed: Up) -> None:
    response = routed.post(chat("faulty", stream=True))
    assert response.headers["x-appliance-model"] == "faulty"
    assert '"error"' in response.text


def test_what_was_learned_of_tokens_outlives_the_server(tmp_path: Path) -> None:
    file = deployment(tmp_path)
    with Up.start(file) as running:
        running.wait_for("ready")
        assert running.post(chat("demo", "word " * 300)).status_code == 200
        running.signal(signal.SIGTERM)
        running.exit_code()
    [kept] = tmp_path.rglob("scales.json")
    [scale] = json.loads(kept.read_text()).values()
    assert 1.2 < scale < 2


def test_no_rule_is_no_model(routed: Up) -> None:
    response = routed.post(chat("nowhere"))
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_virtual_names_are_listed(routed: Up) -> None:
    assert routed.get("/v1/models/auto").json()["state"] == "routed"


def test_a_full_queue_answers_at_once_and_lets_in_again(tmp_path: Path) -> None:
    more = "memory: {queue: {max: 1}}\n"
    (tmp_path / "later.yaml").write_text("text: at last\nload_ms: 60000\n")
    file = deployment(tmp_path, more=more)
    file.write_text(file.read_text().replace("models:\n", "models:\n  later: {source: 'fake:./later.yaml'}\n"))
    with Up.start(file) as running:
        running.wait_for("ready")
        # It waits for a model that takes a minute to load, and leaves long before.
        with running.connection() as sock:
            sock.sendall(raw_post(json.dumps(chat("later")).encode()))
            running.until('appliance_model_waiting{model="later"}', 1)
            refused = running.post(chat("demo"))
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert 1 <= int(refused.headers["retry-after"]) <= 120
        running.until("appliance_generations_running", 0)
        assert running.post(chat("demo")).status_code == 200


BUSY = """
models:
  later: {source: 'fake:./later.yaml'}
  one: {source: 'fake:./endless.yaml', concurrency: 1, context: 1000k}
  two: {source: 'fake:./endless.yaml', concurrency: 2, context: 1000k}
  demo: {source: 'fake:./demo.yaml'}
routing:
  virtual: [auto]
  rules:
    - {name: crowd, when: {queue: {later: ">1"}, state: {later: [loading]}}, use: demo}
    - {name: full, when: {load: {one: ">=100%"}}, use: demo}
    - {name: half, when: {load: {two: ">=50%"}, state: {two: [ready]}}, use: demo}
    - {name: rest, use: demo}
"""


def test_rules_see_how_models_are(tmp_path: Path) -> None:
    deployment(tmp_path)
    (tmp_path / "later.yaml").write_text("text: at last\nload_ms: 60000\n")
    (tmp_path / "endless.yaml").write_text("text: 'on and on '\nendless: true\nstep_ms: 5\ncontext: 1000000\n")
    file = tmp_path / "busy.yaml"
    file.write_text(f"version: 1\nserver: {{listen: 127.0.0.1:0}}{BUSY}")
    with Up.start(file) as running, ExitStack() as held:
        running.wait_for("ready")

        def ask(model: str) -> None:
            sock = held.enter_context(running.connection())
            sock.sendall(raw_post(json.dumps(chat(model, stream=True, max_tokens=900_000)).encode()))
            if model != "later":
                assert b"data: " in sock.recv(65536)

        def rule() -> str:
            return running.post(chat("auto")).headers["x-appliance-route"]

        assert rule() == "rest"
        ask("later")
        running.until('appliance_model_waiting{model="later"}', 1)
        assert rule() == "rest"
        ask("two")
        assert rule() == "half"
        ask("one")
        assert rule() == "full"
        ask("later")
        running.until('appliance_model_waiting{model="later"}', 2)
        assert rule() == "crowd"
