"""Pictures, sounds and files behind an address: refused by name on every protocol, and nobody is asked for them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.server.fake_peer import FakePeer
from tests.server.up import Up, deployment

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
URL = "{url}"
"""Stands for an address of this machine where somebody listens."""


def said(*content: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}], "max_tokens": 9, **more}


def asked(*content: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(content)}]}


TOOL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a picture": (CHAT, said({"type": "image_url", "image_url": {"url": URL}}), "messages[0].content[0].image_url"),
    "a picture, its address alone": (CHAT, said({"type": "image_url", "image_url": URL}), "content[0].image_url"),
    "a picture after a text": (
        CHAT, said({"type": "text", "text": URL}, {"type": "image_url", "image_url": {"url": URL}}), "content[1]"),
    "a sound": (CHAT, said({"type": "input_audio", "input_audio": {"url": URL}}), "content[0].input_audio"),
    "a film": (CHAT, said({"type": "video_url", "video_url": {"url": URL}}), "content[0].video_url"),
    "a file": (CHAT, said({"type": "file", "file": {"file_url": URL}}), "content[0].file"),
    "an unknown medium": (CHAT, said({"type": "audio_url", "audio_url": {"url": URL}}), "content[0].type"),
    "a picture of a tool": (
        CHAT,
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [TOOL]},
                      {"role": "tool", "tool_call_id": "t",
                       "content": [{"type": "image_url", "image_url": {"url": URL}}]}]},
        "messages[2].content[0].image_url"),
    "a picture of responses": (RESPONSES, asked({"type": "input_image", "image_url": URL}), "image_url"),
    "a file of responses": (RESPONSES, asked({"type": "input_file", "file_url": URL}), "input[0].content[0]"),
    "a server of tools": (
        RESPONSES, {"input": "hi", "tools": [{"type": "mcp", "server_label": "a", "server_url": URL}]}, "tools[0]"),
    "a picture of messages": (
        MESSAGES, said({"type": "image", "source": {"type": "url", "url": URL}}), "messages[0].content[0].source"),
    "a document of messages": (
        MESSAGES, said({"type": "document", "source": {"type": "url", "url": URL}}), "messages[0].content[0].source"),
    "a picture in a result": (
        MESSAGES,
        {"max_tokens": 9, "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "image", "source": {"type": "url", "url": URL}}]}]}]},
        "content[0].content[0].source"),
    "a server of tools of messages": (
        MESSAGES, said({"type": "text", "text": "hi"}, mcp_servers=[{"type": "url", "url": URL, "name": "a"}]),
        "mcp_servers"),
    "a count of a picture": (
        "/v1/messages/count_tokens", said({"type": "image", "source": {"type": "url", "url": URL}}), "source"),
    "a picture of Ollama's": (
        "/api/chat", {"messages": [{"role": "user", "content": "hi", "images": [URL]}]}, "messages[0].images"),
    "a picture of Ollama's generate": ("/api/generate", {"prompt": "hi", "images": [URL]}, "images"),
}  # fmt: skip


def at(url: str, value: Any) -> Any:
    """The same with an address in its place."""
    match value:
        case str():
            return value.replace(URL, url)
        case list():
            return [at(url, each) for each in value]
        case dict():
            return {key: at(url, each) for key, each in value.items()}
    return value


@contextmanager
def nobody_comes() -> Iterator[str]:
    """An address of this machine; nobody may connect to it within the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/a.png"
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.fixture(scope="module")
def peer() -> Iterator[FakePeer]:
    with FakePeer() as running:
        yield running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, peer: FakePeer) -> Iterator[Up]:
    peers = (
        f'{{far: {{url: "{peer.url}", health: never}}, real: {{url: "{peer.url}", api: anthropic, health: never}}}}'
    )
    file = deployment(tmp_path_factory.mktemp("media"), more=f"routing: {{peers: {peers}}}\n")
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running


@pytest.mark.parametrize("model", ["demo", "far/fine", "real/fine"])
@pytest.mark.parametrize(("path", "body", "place"), REFUSED.values(), ids=REFUSED)
def test_what_is_behind_an_address_is_refused_by_name_and_not_fetched(
    served: Up, peer: FakePeer, model: str, path: str, body: dict[str, Any], place: str
) -> None:
    before = len(peer.asked)
    with nobody_comes() as url:
        for address in (url, url.replace("http:", "https:"), "file:///etc/passwd", "ftp://127.0.0.1/x"):
            answer = served.post({"model": model, **at(address, body)}, path)
            assert answer.status_code == 400, answer.text
            assert place in answer.text
            assert "root:" not in answer.text
    assert len(peer.asked) == before
