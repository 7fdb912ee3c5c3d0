"""Everything that can be wrong with a request, in OpenAI's words; the appliance answers the next one all the same."""

from typing import Any

import httpx
import pytest

from tests.server.up import Up, chat, read_response

BODIES: dict[str, tuple[Any, int, str | None, str]] = {
    "malformed JSON": (b"{", 400, None, "invalid_value"),
    "a list": (b"[1]", 400, None, "invalid_value"),
    "invalid UTF-8": (b'{"model": "demo", "messages": [{"role": "user", "content": "\xff"}]}', 400, "messages",
                      "invalid_value"),
    "wrong type": (chat("demo", temperature="hot"), 400, "temperature", "invalid_value"),
    "temperature 99": (chat("demo", temperature=99), 400, "temperature", "invalid_value"),
    "n 0": (chat("demo", n=0), 400, "n", "invalid_value"),
    "negative max_tokens": (chat("demo", max_tokens=-1), 400, "max_tokens", "invalid_value"),
    "empty messages": ({"model": "demo", "messages": []}, 400, "messages", "invalid_value"),
    "unknown role": ({"model": "demo", "messages": [{"role": "x", "content": ""}]}, 400, "messages[0].role",
                     "invalid_value"),
    "bad tool schema": (chat("demo", tools=[{"type": "function", "function": {"name": "f", "parameters": {
                        "type": "strange"}}}]), 400, "tools[0].function.parameters.type", "invalid_value"),
    "structured output": (chat("demo", response_format={"type": "json_object"}), 400, "response_format",
                          "unsupported_parameter"),
    "unknown model": (chat("nothing"), 404, "model", "model_not_found"),
    "unknown profile": (chat("demo:nothing"), 404, "model", "model_not_found"),
    "a prompt that is too long": (chat("fussy", "word " * 200), 400, "messages", "context_length_exceeded"),
    "a template that refuses": (chat("fussy", "forbidden"), 400, "messages", "template_error"),
    "a model that cannot be loaded": (chat("broken"), 503, None, "load_failed"),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("body", "status", "param", "code"), BODIES.values(), ids=BODIES.keys())
def test_a_bad_request_is_answered_with_a_status_and_four_keys(
    up: Up, body: Any, status: int, param: str | None, code: str, stream: bool
) -> None:
    if stream and isinstance(body, dict):
        body = {**body, "stream": True}
    response = up.post(body)
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (status, param, code), error
    assert error["message"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in error["message"]
    assert response.headers["x-request-id"].startswith("req_")
    assert up.post(chat("demo")).status_code == 200


PATHS: dict[str, tuple[str, str, int, str]] = {
    "unknown path": ("GET", "/nowhere", 404, "not_found"),
    "unknown path with a body": ("POST", "/v1/nowhere", 404, "not_found"),
    "wrong method": ("DELETE", "/v1/models", 405, "method_not_allowed"),
    "a body where none is wanted": ("POST", "/v1/models", 405, "method_not_allowed"),
    "reading what is written to": ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
    "unknown model": ("GET", "/v1/models/nothing", 404, "model_not_found"),
}


@pytest.mark.parametrize(("method", "path", "status", "code"), PATHS.values(), ids=PATHS.keys())
def test_a_wrong_path_or_method_has_the_same_shape(up: Up, method: str, path: str, status: int, code: str) -> None:
    content = b"{}" if method == "POST" else None
    response = httpx.request(method, f"{up.url}{path}", content=content)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert ("allow" in response.headers) == (status == 405)


REQUESTS: dict[str, tuple[bytes, int]] = {
    "no HTTP at all": (b"hello\r\n\r\n", 400),
    "another protocol": (b"GET / SPDY/3\r\n\r\n", 400),
    "a header without a colon": (b"GET / HTTP/1.1\r\nhost\r\n\r\n", 400),
    "two lengths": (b"POST /v1/models HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
    "a length that is none": (b"POST /v1/models HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
    "endless headers": (b"GET /healthz HTTP/1.1\r\nx: " + b"x" * 20_000 + b"\r\n\r\n", 413),
    "a path with a byte that no URL has": (b"GET /v1/models/a\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    "a path that is not ASCII": ("GET /é HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(), 400),
}


@pytest.mark.parametrize(("request_bytes", "status"), REQUESTS.values(), ids=REQUESTS.keys())
def test_what_is_not_http_is_answered_in_the_same_shape(up: Up, request_bytes: bytes, status: int) -> None:
    with up.connection() as sock:
        sock.sendall(request_bytes)
        answered, headers, body = read_response(sock)
    assert (answered, headers["content-type"]) == (status, "application/json")
    assert b'"error"' in body


def test_a_failure_in_the_middle_is_a_status_for_a_whole_answer(up: Up) -> None:
    response = up.post(chat("faulty"))
    assert (response.status_code, response.json()["error"]["code"]) == (500, "engine_error")


def test_a_failure_after_the_first_byte_is_said_in_the_stream(up: Up) -> None:
    response = up.post(chat("faulty", stream=True))
    assert response.status_code == 200
    *_, last, end = response.text.split("\n\n")
    assert '"content":' in response.text
    assert last.startswith('data: {"error":{"message":')
    assert end == ""
    assert "[DONE]" not in response.text
    assert up.post(chat("demo")).status_code == 200


def test_the_official_client_raises_on_it(up: Up) -> None:
    import openai

    stream = up.client().chat.completions.create(**chat("faulty"), stream=True)
    with pytest.raises(openai.APIError):
        for _ in stream:
            pass


UNKNOWN: dict[str, tuple[str, Any]] = {
    "chat": ("/v1/chat/completions", chat("nothing")),
    "completions": ("/v1/completions", {"model": "nothing", "prompt": "a"}),
    "responses": ("/v1/responses", {"model": "nothing", "input": "a"}),
    "messages": ("/v1/messages", chat("nothing", max_tokens=5)),
    "count_tokens": ("/v1/messages/count_tokens", chat("nothing")),
    "tokenize": ("/tokenize", {"model": "nothing", "prompt": "a"}),
    "ollama chat": ("/api/chat", chat("nothing")),
    "ollama show": ("/api/show", {"model": "nothing"}),
    "a card": ("/v1/models/nothing", None),
}


@pytest.mark.parametrize(("path", "body"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_model_is_told_in_the_same_words_everywhere(up: Up, path: str, body: Any) -> None:
    response = up.get(path) if body is None else up.post(body, path)
    assert response.status_code == 404
    said = response.json()["error"]
    message = said if isinstance(said, str) else said["message"]
    assert message.startswith("there is no model `nothing`; there are ")


OWN_NAMES: dict[str, tuple[str, Any, str]] = {
    "responses": ("/v1/responses", {"model": "strict2", "input": "a", "max_output_tokens": 9}, "max_output_tokens"),
    "ollama": ("/api/chat", chat("strict2", options={"num_predict": 9}), "options.num_predict"),
    "chat": ("/v1/chat/completions", chat("strict2", max_tokens=9), "max_tokens"),
}


@pytest.mark.parametrize(("path", "body", "name"), OWN_NAMES.values(), ids=OWN_NAMES.keys())
def test_a_field_is_called_as_its_client_calls_it(up: Up, path: str, body: Any, name: str) -> None:
    response = up.post(body, path)
    assert response.status_code == 400
    assert f"`{name}` may not be set here" in response.text
