"""Every timeout of the server section, and what its client is told."""

import json
from pathlib import Path

import httpx
import pytest

from tests.server.up import Up, chat, deployment, raw_post, read_response

DEADLINES = {
    "the first token": ("first_token_timeout: 200ms", "step_ms: 60000\n"),
    "silence": ("idle_timeout: 200ms", "text: one two three four\nhang_after: 3\n"),
    "the whole time": ("request_timeout: 400ms", "endless: true\nstep_ms: 10\n"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("setting", "script"), DEADLINES.values(), ids=DEADLINES.keys())
def test_a_deadline_is_named_when_it_passes(tmp_path: Path, setting: str, script: str, stream: bool) -> None:
    file = deployment(tmp_path, setting)
    (tmp_path / "long.yaml").write_text(script)
    with Up.start(file) as running:
        response = running.post(chat("long", stream=stream))
        if stream and response.status_code == 200:
            *_, last, _ = response.text.split("\n\n")
            error = json.loads(last.removeprefix("data: "))["error"]
        else:
            assert response.status_code == 504
            error = response.json()["error"]
        assert error["code"] == "timeout"
        assert setting.partition(":")[0] in error["message"]
        assert running.get("/healthz").status_code == 200


ENDINGS = {
    "/v1/chat/completions": (chat("long"), 'data: {"error":{"message":'),
    "/v1/completions": ({"model": "long", "prompt": "hi", "max_tokens": 9999}, 'data: {"error":{"message":'),
    "/v1/messages": (
        chat("long", max_tokens=9999),
        'event: error\ndata: {"type":"error","error":{"type":"api_error"',
    ),
    "/v1/responses": ({"model": "long", "input": "hi"}, "event: response.failed"),
    "/api/chat": (chat("long"), '{"error":"the generation passed'),
    "/api/generate": ({"model": "long", "prompt": "hi"}, '{"error":"the generation passed'),
}


def test_every_protocol_says_in_its_own_words_that_a_deadline_has_passed(tmp_path: Path) -> None:
    # A heartbeat begins the stream, however long a busy machine takes to come to the first token.
    file = deployment(tmp_path, "request_timeout: 1s, heartbeat: 100ms")
    (tmp_path / "long.yaml").write_text("endless: true\nstep_ms: 10\ncontext: 1000000\n")
    with Up.start(file) as up:
        for path, (body, ending) in ENDINGS.items():
            streamed = up.post({**body, "stream": True}, path)
            blank = "\n" if path.startswith("/api") else "\n\n"
            last = streamed.text.removesuffix(blank).rpartition(blank)[2]
            assert (streamed.status_code, last[: len(ending)]) == (200, ending), path
            assert "server.request_timeout of 1 s" in last
            assert up.post({**body, "stream": False}, path).status_code == 504
        up.until('appliance_model_leases{model="long"}', 0)
        while (short := up.post(chat("long", max_tokens=1))).status_code != 200:
            assert short.json()["error"]["code"] == "timeout"


def test_a_body_that_stops_coming_is_answered(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path, "idle_timeout: 200ms")) as running, running.connection() as sock:
        sock.sendall(raw_post(b'{"model"', length=100))
        assert read_response(sock)[0] == 408
        assert running.post(chat("demo")).status_code == 200


def test_a_connection_is_used_again_after_a_stream(up: Up) -> None:
    with httpx.Client(base_url=up.url, timeout=30) as client:
        for _ in range(3):
            with client.stream("POST", "/v1/chat/completions", json=chat("demo", stream=True)) as response:
                assert response.read().endswith(b"data: [DONE]\n\n")
                port = response.extensions["network_stream"].get_extra_info("client_addr")[1]
        assert client.get("/healthz").extensions["network_stream"].get_extra_info("client_addr")[1] == port
