"""A model unloaded while it answers: every protocol says so in its own words, and the next request is served."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.server.test_admin import Socket
from tests.server.up import PATIENCE, Up, chat, deployment

SAID = "unloaded by hand"
COLD = 'appliance_model_state{model="endless",state="cold"}'
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deployment(tmp_path_factory.mktemp("unload"))


@pytest.fixture(scope="module")
def running(file: Path) -> Iterator[Up]:
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running


@pytest.fixture(scope="module")
def admin(running: Up, file: Path) -> Socket:
    return Socket(file)


def unload(admin: Socket, running: Up) -> None:
    admin.ask("POST", "/models/endless/unload?now=1")
    running.until(COLD, 1)


def test_a_stream_of_openais_ends_with_an_error_its_library_raises(admin: Socket, running: Up) -> None:
    stream = running.client().chat.completions.create(model="endless", messages=HI, stream=True)  # type: ignore[call-overload]
    next(iter(stream))
    unload(admin, running)
    with pytest.raises(openai.APIError, match=SAID):
        list(stream)


def test_a_stream_of_anthropics_ends_with_an_error_its_library_raises(admin: Socket, running: Up) -> None:
    asked: Any = {"model": "endless", "messages": HI, "max_tokens": 1000000}
    with running.anthropic().messages.stream(**asked) as stream:
        next(iter(stream.text_stream))
        unload(admin, running)
        with pytest.raises(anthropic.APIError, match=SAID):
            stream.until_done()


LINES: dict[str, tuple[str, dict[str, Any], str]] = {
    "ollama": ("/api/chat", {"messages": HI}, '"error"'),
    "responses": ("/v1/responses", {"input": "hi", "stream": True}, "response.failed"),
    "completions": ("/v1/completions", {"prompt": "hi", "stream": True, "max_tokens": 1000000}, "unavailable"),
}


@pytest.mark.parametrize(("path", "asked", "last"), LINES.values(), ids=LINES.keys())
def test_a_stream_ends_whole_with_an_error(
    admin: Socket, running: Up, path: str, asked: dict[str, Any], last: str
) -> None:
    body = {"model": "endless", **asked}
    with httpx.stream("POST", f"{running.url}{path}", json=body, timeout=PATIENCE) as stream:
        lines = stream.iter_lines()
        next(lines)
        unload(admin, running)
        rest = "\n".join(lines)
    assert SAID in rest
    assert last in rest


def test_an_answer_that_was_not_begun_is_refused(admin: Socket, running: Up) -> None:
    with running.connection() as sock:
        body = json.dumps(chat("endless")).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        running.until('appliance_model_leases{model="endless"}', 1)
        unload(admin, running)
        answer = sock.recv(1 << 16).decode()
    assert answer.startswith("HTTP/1.1 503")
    assert SAID in answer


def test_it_is_loaded_again_with_the_next_request(admin: Socket, running: Up) -> None:
    unload(admin, running)
    assert running.post(chat("endless", max_tokens=3)).status_code == 200
    unload(admin, running)
