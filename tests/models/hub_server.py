"""A small Hugging Face hub on localhost: the few routes its client uses to fetch a repository."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_ERRORS = {
    "owner/gated": (403, "GatedRepo"),
    "owner/missing": (401, "RepoNotFound"),
    "owner/broken": (503, ""),
}


@dataclass
class Hub:
    """`files` of the one repository owner/model. `stall_at` bytes into a file the answer stops, and the
    connection is closed once `go_on` is set."""

    url: str
    files: dict[str, bytes]
    stall_at: dict[str, int] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    go_on: threading.Event = field(default_factory=threading.Event)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """(file, Range header) of every GET that asked for part of a file."""


@contextmanager
def hub_serving(files: Mapping[str, bytes]) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    hub = Hub(f"http://127.0.0.1:{server.server_port}", dict(files))
    server.RequestHandlerClass = _handler(hub)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()


def _handler(hub: Hub) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body_wanted=True)

        def do_HEAD(self) -> None:
            self._answer(body_wanted=False)

        def log_message(self, *args: object) -> None:
            pass

        def _answer(self, *, body_wanted: bool) -> None:
            parts = urlsplit(self.path).path.strip("/").split("/")
            api = parts[:2] == ["api", "models"]
            owner, name, *rest = parts[2:] if api else parts
            repository = f"{owner}/{name}"
            if repository in _ERRORS:
                return self._refuse(*_ERRORS[repository])
            match [api, *rest]:
                case [True, "revision", revision] if revision not in ("main", COMMIT):
                    return self._refuse(404, "RevisionNotFound")
                case [True, "revision", _] | [True]:
                    return self._json({"id": repository, "sha": COMMIT, "siblings": [
                        {"rfilename": path, "size": len(data)} for path, data in hub.files.items()]})  # fmt: skip
                case [True, "tree", _]:
                    return self._json([{"type": "file", "path": path, "size": len(data), "oid": _digest(data)}
                                       for path, data in hub.files.items()])  # fmt: skip
                case [False, "resolve", _, *path]:
                    return self._file("/".join(path), body_wanted)
            return self._refuse(404, "EntryNotFound")

        def _file(self, path: str, body_wanted: bool) -> None:
            data = hub.files[path]
            begin = 0
            if body_wanted and (asked := self.headers.get("Range")):
                hub.ranges.append((path, asked))
                begin = int(asked.removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(data) - begin))
            self.send_header("Accept-Ranges", "bytes")
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            self.send_header("ETag", f'"{_digest(data)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if body_wanted:
                self._send(path, data, begin)

        def _send(self, path: str, data: bytes, begin: int) -> None:
            if path in hub.damaged:
                data = bytes(len(data))
            pause = hub.stall_at.pop(path, 0) if hub.go_on.is_set() else hub.stall_at.get(path, 0)
            if begin < pause:
                self.wfile.write(data[begin:pause])
                self.wfile.flush()
                hub.go_on.wait()
                self.close_connection = True
                return
            self.wfile.write(data[begin:])

        def _json(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


def _digest(data: bytes) -> str:
    """Large files go by sha256, as on the hub."""
    return hashlib.sha256(data).hexdigest() if len(data) > 1_000_000 else hashlib.sha1(data).hexdigest()
