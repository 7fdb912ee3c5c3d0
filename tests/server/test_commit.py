"""When a stream's status is decided: with the first event, or with the first heartbeat."""

import json
from collections.abc import Iterator

import pytest

from tests.server.up import Up, chat, deployment, raw_post


@pytest.fixture
def fresh(tmp_path) -> Iterator[Up]:  # type: ignore[no-untyped-def]
    """An appliance of its own whose models are cold, with a heartbeat of 100 ms."""
    for name, script in {
        "late": "text: better late\nload_ms: 700\n",
        "hopeless": "load_ms: 700\nfail_load: the weights are cut off\n",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(script)
    more = "  late: {source: 'fake:./late.yaml'}\n  hopeless: {source: 'fake:./hopeless.yaml'}\n"
    with Up.start(deployment(tmp_path, "heartbeat: 100ms", more=more)) as running:
        running.wait_for("ready")
        yield running


def test_a_slow_load_is_bridged_with_heartbeats(fresh: Up) -> None:
    response = fresh.post(chat("late", stream=True))
    assert response.status_code == 200
    first, *_ = response.text.split("\n\n")
    assert first == ": heartbeat"
    assert response.text.count(": heartbeat\n\n") >= 2
    assert response.text.endswith("data: [DONE]\n\n")
    assert "x-appliance-load-ms" not in response.headers


def test_the_official_client_reads_over_heartbeats(fresh: Up) -> None:
    stream = fresh.client().chat.completions.create(**chat("late"), stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "better late"


def test_a_whole_answer_keeps_its_status_until_it_is_there(fresh: Up) -> None:
    response = fresh.post(chat("late"))
    assert response.status_code == 200
    assert float(response.headers["x-appliance-load-ms"]) >= 600


def test_a_load_that_fails_before_anything_was_sent_is_a_status(up: Up) -> None:
    response = up.post(chat("broken", stream=True))
    assert response.status_code == 503
    assert "the weights are cut off" in response.json()["error"]["message"]
    assert response.headers["x-should-retry"] == "false"


def test_a_load_that_fails_after_a_heartbeat_is_said_in_the_stream(fresh: Up) -> None:
    response = fresh.post(chat("hopeless", stream=True))
    assert response.status_code == 200
    *heartbeats, last, end = response.text.split("\n\n")
    assert set(heartbeats) == {": heartbeat"}
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] == "load_failed"
    assert end == ""


def test_a_load_that_fails_is_a_status_for_a_whole_answer(fresh: Up) -> None:
    assert fresh.post(chat("hopeless")).status_code == 503


def test_a_client_that_does_not_read_holds_nobody_up(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = deployment(tmp_path, "idle_timeout: 200ms, heartbeat: 100ms")
    (tmp_path / "endless.yaml").write_text("text: 'on and on and on and on '\nendless: true\ncontext: 100000000\n")
    with Up.start(file) as running:
        with running.connection(receive_bytes=4096) as sock:
            sock.sendall(raw_post(json.dumps(chat("endless", stream=True)).encode()))
            assert sock.recv(15) == b"HTTP/1.1 200 OK"
            running.wait_for("generation.failed")
            assert running.post(chat("demo")).status_code == 200
        running.until("appliance_generations_running", 0)
