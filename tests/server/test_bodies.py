"""Bodies that are too large, too slow or cut off: an answer at once, and nobody else notices."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.up import Up, chat, raw_post, read_response

FIFTY_MB = 50 * 1024 * 1024
TWO_MB = b"x" * (2 << 20)


def test_fifty_megabytes_are_refused_and_the_next_request_is_answered(up: Up) -> None:
    with httpx.Client(base_url=up.url, timeout=30) as client:
        for _ in range(2):
            response = client.post("/v1/chat/completions", content=b"x" * FIFTY_MB)
            assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
            assert client.post("/v1/chat/completions", json=chat("demo")).status_code == 200


def test_the_answer_does_not_wait_for_the_body(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(b"{", length=FIFTY_MB))
        status, _, body = read_response(sock)
    assert (status, json.loads(body)["error"]["code"]) == (413, "body_too_large")


def test_a_client_that_goes_on_sending_still_reads_its_answer(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(b"", length=4 * len(TWO_MB)))
        for _ in range(4):
            sock.sendall(TWO_MB)
        assert read_response(sock)[0] == 413
        body = json.dumps(chat("demo")).encode()
        sock.sendall(raw_post(body))
        assert read_response(sock)[0] == 200


def test_a_client_that_asks_first_is_not_sent_a_go_ahead(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(b"", "expect: 100-continue", length=FIFTY_MB))
        assert read_response(sock)[0] == 413
        assert sock.recv(1) == b""


def test_a_client_that_asks_first_may_send_what_fits(up: Up) -> None:
    body = json.dumps(chat("demo")).encode()
    with up.connection() as sock:
        sock.sendall(raw_post(b"", "expect: 100-continue", length=len(body)))
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert read_response(sock)[0] == 200


def test_a_body_without_a_length_is_counted_while_it_comes(up: Up) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(3):
            yield TWO_MB

    response = httpx.post(f"{up.url}/v1/chat/completions", content=endless(), timeout=30)
    assert response.status_code == 413


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/models"], ids=["unknown path", "wrong method"])
def test_a_large_body_nobody_wants_is_dropped(up: Up, path: str) -> None:
    with httpx.Client(base_url=up.url, timeout=30) as client:
        assert client.post(path, content=b"x" * FIFTY_MB).status_code in (404, 405)
        assert client.get("/healthz").status_code == 200


def test_a_chunk_that_is_announced_too_large_is_refused_before_it_comes(up: Up) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    body = json.dumps(chat("demo")).encode()
    with up.connection() as sock:
        sock.sendall(head + b"%x\r\n" % len(TWO_MB))
        status, _, said = read_response(sock)
        assert (status, json.loads(said)["error"]["code"]) == (413, "body_too_large")
        sock.sendall(TWO_MB + b"\r\n0\r\n\r\n")
        sock.sendall(raw_post(body))
        assert read_response(sock)[0] == 200
        sock.sendall(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert read_response(sock)[0] == 200


PACKED = {
    "chat": ("/v1/chat/completions", chat("demo")),
    "completions": ("/v1/completions", {"model": "demo", "prompt": "hi"}),
    "responses": ("/v1/responses", {"model": "demo", "input": "hi"}),
    "messages": ("/v1/messages", {**chat("demo"), "max_tokens": 5}),
    "count": ("/v1/messages/count_tokens", chat("demo")),
    "ollama": ("/api/chat", chat("demo", stream=False)),
    "show": ("/api/show", {"model": "demo"}),
    "batches": ("/v1/batches", {}),
    "cancel": ("/v1/requests/x/cancel", {}),
}


@pytest.mark.parametrize(("path", "body"), PACKED.values(), ids=PACKED.keys())
def test_a_packed_body_is_refused_by_name(up: Up, path: str, body: dict[str, Any]) -> None:
    packed = gzip.compress(json.dumps(body).encode())
    refused = httpx.post(f"{up.url}{path}", content=packed, headers={"content-encoding": "gzip"}, timeout=30)
    assert (refused.status_code, "Content-Encoding 'gzip'" in refused.text) == (415, True)
    plain = {"content-encoding": "identity"}
    assert httpx.post(f"{up.url}{path}", json=body, headers=plain, timeout=30).status_code != 415


def test_a_packed_file_is_refused_by_name(up: Up) -> None:
    headers = {"content-encoding": "gzip", "content-type": "multipart/form-data; boundary=b"}
    refused = httpx.post(f"{up.url}/v1/files", content=gzip.compress(b"--b"), headers=headers, timeout=30)
    assert (refused.status_code, "Content-Encoding 'gzip'" in refused.text) == (415, True)


@pytest.mark.parametrize(
    ("method", "path", "endpoint", "status"),
    [
        ("GET", "/v1/nowhere", "other", 404),
        ("GET", "/v1/models/nothing", "other", 404),
        ("DELETE", "/v1/models", "other", 405),
        ("GET", "/v1/chat/completions", "/v1/chat/completions", 405),
        ("POST", "/v1/chat/completions", "/v1/chat/completions", 400),
    ],
    ids=["no path", "no model", "wrong method", "wrong method of an endpoint", "no body"],
)
def test_every_refusal_is_counted_once(up: Up, method: str, path: str, endpoint: str, status: int) -> None:
    sample = f'appliance_requests_total{{endpoint="{endpoint}",model="",status="{status}"}}'
    before = up.metric(sample)
    assert httpx.request(method, f"{up.url}{path}", timeout=30).status_code == status
    assert up.metric(sample) == before + 1


def test_a_client_that_leaves_in_the_middle_of_its_body_is_forgotten(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(b'{"model"', length=1000))
    assert up.post(chat("demo")).status_code == 200


def test_others_are_answered_while_a_large_body_comes(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(b"[" * 500_000, length=900_000))
        assert up.get("/v1/models").status_code == 200


def test_a_body_that_breaks_is_counted_as_it_is_answered(up: Up) -> None:
    sample = 'appliance_requests_total{{endpoint="{}",model="",status="{}"}}'.format
    for path in ("/v1/chat/completions", "/tokenize"):
        before = [up.metric(sample(path, status)) for status in (400, 500)]
        with up.connection() as sock:
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            sock.sendall(head.encode() + b"not a length\r\n")
            assert read_response(sock)[0] == 400
        assert [up.metric(sample(path, status)) for status in (400, 500)] == [before[0] + 1, before[1]]
