"""Another server, as bad as servers get: what it does with a request is the model's name."""

import json
import socketserver
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

Write = Callable[[bytes], object]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":3}}\n\n'
ANSWER = (
    chunk({"role": "assistant"}),
    chunk({"content": "far "}),
    chunk({"content": "away"}),
    chunk({}, "stop"),
    USAGE,
    b"data: [DONE]\n\n",
)


LISTED = json.dumps(
    {
        "object": "list",
        "data": [
            {"id": "fine", "object": "model"},
            {"id": "qwen3:8b", "object": "model"},
            {"id": "theirs/own", "object": "model", "state": "elsewhere"},
            {"id": "two\nlines", "object": "model"},
            {"id": 7},
            "none",
        ],
    }
).encode()
"""What it says it has: two models, one of a peer of its own, and what is none."""


def _error(status: str, message: str, more: str = "") -> bytes:
    body = json.dumps({"error": {"message": message}})
    return f"HTTP/1.1 {status}\r\n{more}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()


class FakePeer(socketserver.ThreadingTCPServer):
    """`asked` are the bodies it got, `headers` those of the latest; `gone` is set when a client left `endless`."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.gone, self.let_go = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go.set()
        self.shutdown()
        self.server_close()

    def do(self, model: str, write: Write) -> None:
        self.counts[model] += 1
        match model:
            case "hangs":
                self.let_go.wait(60)
            case "closes":
                pass
            case "fails" | "fails:1b":
                write(_error("500 Oops", "out of luck"))
            case "busy":
                write(_error("429 Later", "too many", "retry-after: 7\r\n"))
            case "long":
                write(_error("400 No", "prompt is too long: 9 tokens > 3 maximum"))
            case "gets-better" if self.counts[model] == 1:
                write(_error("502 Bad", "not yet"))
            case "cuts":
                write(HEAD + b"".join(ANSWER[:3]))
            case "cuts-early":
                write(HEAD + ANSWER[0])
            case "stalls":
                write(HEAD + ANSWER[0])
                self.let_go.wait(60)
            case "says-so":
                write(HEAD + ANSWER[1] + b'data: {"error":{"message":"the engine burns"}}\n\n')
            case "babbles":
                write(HEAD + b"data: {]\n\n")
            case "is-no-http":
                write(b"\x00\x16\x03 what?\r\n\r\n")
            case "endless":
                self._endless(write)
            case _:
                for part in (HEAD, *ANSWER):
                    write(part)

    def _endless(self, write: Write) -> None:
        write(HEAD)
        try:
            while not self.let_go.wait(0.005):
                write(chunk({"content": "on "}))
        except OSError:
            self.gone.set()


class _Handler(socketserver.StreamRequestHandler):
    server: FakePeer

    def handle(self) -> None:
        line = self.rfile.readline()
        headers: dict[str, str] = {}
        while (header := self.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if line.startswith(b"GET"):
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(LISTED)}\r\nconnection: close\r\n\r\n"
            self.wfile.write(head.encode() + LISTED)
            return
        body = json.loads(self.rfile.read(int(headers["content-length"])))
        self.server.asked.append(body)
        self.server.headers = headers
        self.server.do(body["model"], self.wfile.write)
