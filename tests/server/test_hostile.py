"""Whatever is sent, the server lives, answers the next client, names no fault of its own, and grows no fatter."""

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.server.hostile import KINDS, hostile
from tests.server.up import PATIENCE, Up, chat, deployment

AT_ONCE = 16
SCALED, FULL, TWICE = 200, 10_000, 20_000


def resident(up: Up) -> int:
    """Bytes of memory the server process has."""
    text = Path(f"/proc/{up.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with Up.start(deployment(tmp_path, "max_body: 1MiB, idle_timeout: 2s")) as running:
        running.wait_for("ready")
        assert running.post(chat("demo")).status_code == 200
        yield running


def send(port: int, request: bytes) -> bytes:
    """What comes back to one who sends this and then nothing more."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        answer = b""
        try:
            sock.sendall(request)
            with suppress(OSError):  # the server may have hung up already
                sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(65536):
                answer += data
        except ConnectionError:
            pass
        return answer


def attack(up: Up, numbers: range) -> None:
    port = up.port
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, answer in zip(numbers, pool.map(lambda n: send(port, hostile(n)), numbers), strict=True):
            statuses = re.findall(rb"HTTP/1\.1 (\d+)", answer)
            kind = KINDS[number % len(KINDS)].__name__
            assert not [status for status in statuses if status >= b"500"], (number, kind, answer[:300])
            assert b"root:" not in answer, (number, kind)
            assert not re.search(rb"^x-evil", answer, re.MULTILINE), (number, kind)


def unharmed(up: Up) -> None:
    assert up.post(chat("demo")).json()["choices"][0]["message"]["content"] == "You said: hi"
    assert up.process.poll() is None
    assert not [line for line in up.errors if "request.bug" in line or "Traceback" in line]


def test_hostile_requests_do_no_harm(up: Up) -> None:
    attack(up, range(SCALED))
    unharmed(up)


@pytest.mark.proof
def test_ten_thousand_hostile_requests_do_no_harm_and_leave_nothing_behind(up: Up) -> None:
    attack(up, range(2_000))
    early = resident(up)
    attack(up, range(2_000, FULL))
    unharmed(up)
    # By now what is remembered of the latest requests is full, and so is what the allocator keeps.
    before, samples = resident(up), up.get("/metrics").text.count("\n")
    attack(up, range(FULL, TWICE))
    unharmed(up)
    after = resident(up)
    print(f"hostile requests: {early >> 20} MiB after 2000, {before >> 20} after {FULL}, {after >> 20} after {TWICE}")
    assert after < before + (8 << 20)
    assert up.get("/metrics").text.count("\n") <= samples + 8


def test_what_is_hidden_behind_a_request_is_not_answered(up: Up) -> None:
    line = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for framing in (
        b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"content-length: 5\r\ncontent-length: 50\r\n\r\nhello",
        b"transfer-encoding: xchunked\r\n\r\n",
        b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    ):
        assert b'{"status":"ok"}' not in send(up.port, line + framing + hidden), framing


LENGTHS = {
    "hexadecimal as in programs": b"0x5", "a sign": b"+5", "a negative one": b"-5", "a space before": b" 5",
    "digits of another script": "\u0665".encode(), "a line between": b"0_5", "no digit": b"g", "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS.keys())
def test_the_length_of_a_chunk_is_written_as_everybody_reads_it(up: Up, length: bytes) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    said = send(up.port, head + length + b"\r\nhello\r\n0\r\n\r\n" + hidden)
    assert b"400 Bad Request" in said
    assert b"Bad chunked encoding" in said
    assert b'{"status":"ok"}' not in said


DRIPS = [
    pytest.param(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n",
        b" ",
        0.1,
        id="a body",
    ),
    pytest.param(
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n", b"x: y\r\n", 1, id="headers", marks=pytest.mark.proof
    ),
]


@pytest.mark.parametrize(("begin", "drop", "seconds"), DRIPS)
def test_what_comes_in_drops_is_not_waited_for(up: Up, begin: bytes, drop: bytes, seconds: float) -> None:
    """A little at a time is never silence, and yet the whole has its time."""
    with up.connection() as sock:
        sock.settimeout(90)
        sock.sendall(begin)
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(seconds):
                try:
                    sock.sendall(drop)
                except OSError:
                    return

        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        try:
            assert sock.recv(4096).startswith(b"HTTP/1.1 408")
        finally:
            ended.set()
            dripping.join()


def hold(up: Up, count: int, model: str) -> None:
    """So many streams at once, all held, all told that they are; then one more client is answered."""
    body = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"x"}]}' % model.encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", up.port), 120)) for _ in range(count)]
        for sock in socks:
            sock.settimeout(120)
            sock.sendall(head + body)
        for sock in socks:
            # The first heartbeat, or the first text for those that are being served.
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        up.until("appliance_generations_running", count)
        assert up.post(chat("demo")).status_code == 200
    up.until("appliance_generations_running", 0)


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.proof)])
def test_idle_streams_are_held_beyond_the_limit_the_server_was_started_with(tmp_path: Path, count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))

    more = "memory: {queue: {max: 4096}}\n"
    with Up.start(deployment(tmp_path, "heartbeat: 1s", more=more), preexec_fn=few_files) as up:
        up.wait_for("ready")
        assert up.post(chat("demo")).status_code == 200
        before = resident(up)
        hold(up, count, "long")
        print(f"{count} idle streams: {before >> 20} MiB before, {resident(up) >> 20} MiB after")
