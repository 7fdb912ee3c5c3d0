"""A changed `server.listen` is applied by a save: new addresses first, old ones left once their answers are over."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.control.state_dir import state_of
from tests.server.up import PATIENCE, Up, chat, deployment


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def refused(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


class Live:
    """An appliance listening on `port`, and its admin socket."""

    def __init__(self, directory: Path, up: Up, port: int) -> None:
        self.directory, self.up, self.port = directory, up, port
        socket_path = state_of(directory / "deploy.yaml", {"APPLIANCE_HOME": str(directory / ".appliance")}).socket
        self.admin = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket_path)), base_url="http://a/admin/v1", timeout=PATIENCE
        )

    def listen(self, *addresses: str, server: str = "") -> httpx.Response:
        """Save other addresses and have the file read."""
        deployment(self.directory, f"reload: {{watch: false}}{server}", listen=json.dumps(addresses))
        return self.admin.post("/reload")

    def status(self) -> dict[str, Any]:
        return self.admin.get("/status").json()


def serving(directory: Path, *arguments: str, server: str = "") -> Iterator[Live]:
    port = free_port()
    file = deployment(directory, f"reload: {{watch: false}}{server}", listen=f"127.0.0.1:{port}")
    with Up.start(file, *arguments) as running:
        running.wait_for("ready")
        yield Live(directory, running, port)
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
        assert not [line for line in running.errors if "Traceback" in line or "never retrieved" in line]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    yield from serving(tmp_path)


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[Live]:
    yield from serving(tmp_path, "--insecure")


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Live]:
    """Answers have 100 ms to end."""
    yield from serving(tmp_path, server=", drain_timeout: 100ms")


def ask(port: int, host: str = "127.0.0.1") -> str:
    answer = httpx.post(f"http://{host}:{port}/v1/chat/completions", json=chat("demo", "hi"), timeout=PATIENCE)
    return str(answer.json()["choices"][0]["message"]["content"])


def test_the_new_address_answers_and_the_old_one_ends_with_its_answers(live: Live) -> None:
    port, asked = free_port(), chat("long", stream=True, max_tokens=60)
    with httpx.stream(
        "POST", f"http://127.0.0.1:{live.port}/v1/chat/completions", json=asked, timeout=PATIENCE
    ) as answer:
        lines = (line for line in answer.iter_lines() if line)
        first = next(lines)
        applied = live.listen(f"127.0.0.1:{port}")
        assert applied.json()["reload"]["status"] == "applied"
        assert ask(port) == "You said: hi"
        assert refused(live.port)
        rest = [first, *lines]
    assert rest[-1] == "data: [DONE]"
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in rest[:-1]]
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert said == ("a word " * 60)[: len(said)]
    assert choices[-1]["finish_reason"] == "length"
    assert answer.headers["x-appliance-generation"] == "1"
    assert live.status()["pending_restart"] == []
    live.up.wait_for("server.left")


def test_an_idle_connection_to_an_old_address_is_closed(live: Live) -> None:
    with live.up.connection() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        live.listen(f"127.0.0.1:{free_port()}")
        assert sock.recv(4096) == b""


def test_an_answer_that_outlives_the_drain_is_told_why_it_ends(hasty: Live) -> None:
    url = f"http://127.0.0.1:{hasty.port}/v1/chat/completions"
    with httpx.stream("POST", url, json=chat("endless", stream=True), timeout=PATIENCE) as answer:
        lines = (line for line in answer.iter_lines() if line)
        next(lines)
        port = free_port()
        hasty.listen(f"127.0.0.1:{port}", server=", drain_timeout: 100ms")
        *_, last = lines
    assert "the server leaves this address" in last
    assert ask(port) == "You said: hi"


def test_an_address_that_cannot_be_had_refuses_the_whole_reload(live: Live) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = live.listen(f"127.0.0.1:{free_port()}", busy)
        assert answer.status_code == 422
        [problem] = answer.json()["problems"]
        assert (problem["code"], problem["path"], problem["line"]) == ("E216", "server.listen[1]", 2)
        assert problem["message"].startswith(f"cannot listen on {busy}: another program is listening there")
        assert ask(live.port) == "You said: hi"
        status = live.status()
        assert (status["generation"], status["last_reload"]["status"]) == (1, "rejected")
    assert live.listen(busy).json()["reload"]["generation"] == 2, "asked again, it is tried again"


def test_an_address_that_contains_the_old_one_takes_its_place(open_to_all: Live) -> None:
    assert open_to_all.listen(f"0.0.0.0:{open_to_all.port}").status_code == 200
    assert ask(open_to_all.port, "127.0.0.2") == "You said: hi"
    assert open_to_all.listen(f"127.0.0.1:{open_to_all.port}").status_code == 200
    assert ask(open_to_all.port) == "You said: hi"
    with pytest.raises(httpx.ConnectError):
        ask(open_to_all.port, "127.0.0.2")


def test_an_old_address_that_was_given_up_is_taken_again_when_the_new_ones_fail(open_to_all: Live) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = open_to_all.listen(f"0.0.0.0:{open_to_all.port}", f"127.0.0.1:{taken.getsockname()[1]}")
    assert answer.status_code == 422
    assert ask(open_to_all.port) == "You said: hi"
    with pytest.raises(httpx.ConnectError):
        ask(open_to_all.port, "127.0.0.2")


def test_nothing_opens_itself_to_other_machines_without_a_key(live: Live) -> None:
    answer = live.listen(f"127.0.0.1:{live.port}", "0.0.0.0:1")
    assert answer.status_code == 422
    [problem] = answer.json()["problems"]
    assert problem["path"] == "server.listen[1]"
    assert "can be reached by other machines, and nothing asks them for a key" in problem["message"]


def test_a_unix_socket_comes_and_goes_with_its_file(live: Live) -> None:
    path = live.directory / "a.sock"
    live.listen(f"127.0.0.1:{live.port}", f"unix:{path}")
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=PATIENCE) as client:
        assert client.get("http://a/healthz").status_code == 200
    live.listen(f"127.0.0.1:{live.port}")
    until(lambda: not path.exists())
    assert ask(live.port) == "You said: hi"


def test_a_socket_that_was_not_handed_over_at_the_start_is_refused(live: Live) -> None:
    answer = live.listen("fd:3")
    assert answer.status_code == 422
    assert "is handed over when the appliance starts; restart it" in answer.json()["problems"][0]["message"]


@pytest.mark.skipif(not Path("/proc").exists(), reason="descriptors are counted in /proc")
def test_addresses_that_change_often_leave_nothing_open(live: Live) -> None:
    pid, path = live.up.process.pid, live.directory / "a.sock"

    def settled() -> int:
        live.listen(f"127.0.0.1:{live.port}")
        assert ask(live.port) == "You said: hi"
        return len(os.listdir(f"/proc/{pid}/fd"))

    before = settled()
    for _ in range(4):
        live.listen(f"127.0.0.1:{free_port()}", f"unix:{path}")
        live.listen(f"127.0.0.1:{live.port}", f"127.0.0.1:{free_port()}")
    assert live.listen("fd:3").status_code == 422
    until(lambda: settled() <= before)
