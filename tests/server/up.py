"""A real `appliance up` for tests: started on a deploy file, spoken to over real sockets, ended by a signal."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anthropic
import httpx
import openai

PATIENCE = 90.0
"""Far longer than anything takes; only a fault reaches it."""
POLL_SECONDS = 0.02
"""Between two looks at what nobody tells: whoever asks all the time keeps the processor from what is waited for."""

SCRIPTS: dict[str, str] = {
    "demo": "text: 'You said: {last}'\n",
    "slow": "text: slow but sure\nload_ms: 600\n",
    "broken": "fail_load: the weights are cut off\npermanent: true\n",
    "coder": "text: '[{prompt}]'\nspecial: [<|fim_prefix|>, <|fim_suffix|>, <|fim_middle|>]\n",
    "never": "fail_load: nobody is to load this\n",
    "faulty": "text: one two three four\nfault_after: 3\nstep_ms: 5\n",
    "endless": "text: 'on and on '\nendless: true\nstep_ms: 5\ncontext: 1000000\n",
    "long": "text: 'a word '\nendless: true\nstep_ms: 20\ncontext: 1000000\n",
    "fussy": "fail_render: forbidden\ncontext: 64\n",
    "values": "text: 't={temperature} k={top_k} m={max_tokens}'\n",
    "budget": "text: 'b={reasoning_budget}'\n",
    "agent": """
text: 'You said: {last}'
when:
  - {contains: it is sunny, text: Take a hat.}
  - {contains: all cities, text: '<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>
      <tool_call>{"name": "weather", "arguments": {"city": "Rom"}}</tool_call>'}
  - {contains: weather in, text: '<think>where?</think>Let me look.
      <tool_call>{"name": "weather", "arguments": {"city": "Zürich"}}</tool_call>'}
  - {contains: muse, text: '<think>~</think>^'}
  - {contains: ponder, text: '<think>hm</think>yes'}
""",
}
"""Models every deployment of these tests has, as scripts of the fake engine."""

_MORE = {"agent": ", family: qwen3"}


def deployment(directory: Path, server: str = "", listen: str = "127.0.0.1:0", more: str = "") -> Path:
    """Write a deploy file and its scripts; `server` and `more` are YAML, flow style and top level."""
    for name, script in SCRIPTS.items():
        (directory / f"{name}.yaml").write_text(script)
    models = "".join(
        f"  {name}: {{source: 'fake:./{name}.yaml', context: 1000k{_MORE.get(name, '')}}}\n" for name in SCRIPTS
    )
    file = directory / "deploy.yaml"
    file.write_text(f"version: 1\nserver: {{listen: {listen}{server and ', ' + server}}}\nmodels:\n{models}{more}")
    return file


@dataclass(slots=True)
class Up:
    """A running appliance; `lines` is its stdout so far, `errors` its stderr."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(cls, file: Path, *arguments: str, **options: Any) -> Self:
        """Spawn it; `wait_for` a line to know how far it is. Its state is kept beside the file."""
        options = {"env": {**os.environ, "APPLIANCE_HOME": str(file.parent / ".appliance")}, **options}
        command = [sys.executable, "-m", "appliance", "up", "-f", str(file), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        up = cls(process)
        for stream, lines in ((process.stdout, up.lines), (process.stderr, up.errors)):
            thread = threading.Thread(target=up._collect, args=(stream, lines), daemon=True)
            thread.start()
            up._threads.append(thread)
        return up

    def _collect(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, words: str) -> str:
        """The first line of stdout or stderr with these words, once it is there."""

        def found() -> str | None:
            return next((line for line in (*self.lines, *self.errors) if words in line), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self.process.poll() is not None, PATIENCE)
        line = found()
        assert line is not None, f"{words!r} was never said: {self.lines} {self.errors}"
        return line

    @property
    def url(self) -> str:
        return self.wait_for("listening on http").rpartition(" ")[2]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, without retries."""
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": "any", "max_retries": 0, **options})

    def anthropic(self, **options: Any) -> anthropic.Anthropic:
        """Anthropic's official client, without retries."""
        return anthropic.Anthropic(base_url=self.url, api_key="any", **{"max_retries": 0, **options})

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=PATIENCE)

    def post(self, body: Any, path: str = "/v1/chat/completions", **options: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(f"{self.url}{path}", content=content, timeout=PATIENCE, **options)

    def metric(self, name: str) -> float:
        """The value of one sample of /metrics; 0 where it was never counted."""
        values = (line.rpartition(" ") for line in self.get("/metrics").text.splitlines())
        return next((float(value) for sample, _, value in values if sample == name), 0.0)

    def until(self, name: str, value: float) -> None:
        """Wait until a sample of /metrics has this value."""
        end = time.monotonic() + PATIENCE
        while (now := self.metric(name)) != value:
            assert time.monotonic() < end, f"{name} stayed at {now}"
            time.sleep(POLL_SECONDS)

    @contextmanager
    def connection(self, receive_bytes: int | None = None) -> Iterator[socket.socket]:
        """A raw connection; `receive_bytes` makes its buffer small."""
        with socket.socket() as sock:
            sock.settimeout(PATIENCE)
            if receive_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            sock.connect(("127.0.0.1", self.port))
            yield sock

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end; all output is in `lines` and `errors` then."""
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.exit_code()


def chat(model: str, text: str = "hi", **fields: Any) -> dict[str, Any]:
    """A chat body."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **fields}


def raw_post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A request as bytes; `length` announces another length than the body has."""
    announced = len(body) if length is None else length
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: localhost", f"content-length: {announced}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_response(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One response with a content-length, from a raw connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += _more(sock)
    return int(status.split()[1]), headers, body


def _more(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    assert data, "the connection was closed in the middle of an answer"
    return data
