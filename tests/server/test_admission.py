"""A queue that is full: who is refused, who makes way, and that no body is read before that is decided."""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from appliance.server.admission import Measure, Newcomer, makes_way, room
from appliance.server.in_flight import Entry
from tests.server.up import PATIENCE, Up, chat, deployment, raw_post, read_response

LOW, NORMAL, HIGH = -2000, 0, 2000


def entry(id: str, key: str | None, rank: int = NORMAL) -> Entry:
    return Entry(id, id, "/", "m", "m", 0.0, True, key=key, rank=rank)


def of(key: str | None, count: int, rank: int = NORMAL) -> list[Entry]:
    return [entry(f"{key}{number}", key, rank) for number in range(count)]


PLACES = {
    "nobody has more": ([*of("a", 2), *of("b", 2)], {}, "a", NORMAL, None),
    "one more is not more than one's share": ([*of("a", 1), *of("b", 2)], {}, "a", NORMAL, None),
    "the newest of who has most": ([*of("a", 1), *of("b", 3)], {}, "a", NORMAL, "b2"),
    "those who are still arriving count": ([*of("a", 1), *of("b", 2)], {"b": 1}, "a", NORMAL, "b1"),
    "and on the other side": ([*of("a", 1), *of("b", 3)], {"a": 1}, "a", NORMAL, None),
    "a newcomer": ([*of("a", 2), *of("b", 3)], {}, "c", NORMAL, "b2"),
    "a newcomer among equals": ([*of("a", 1), *of("b", 1)], {}, "c", NORMAL, None),
    "who needs no key is one of them": ([*of(None, 4), *of("b", 1)], {}, "b", NORMAL, "None3"),
    "a lower class makes way": ([*of("a", 3), *of("low", 1, LOW)], {}, "a", NORMAL, "low0"),
    "the lowest first": ([*of("low", 1, LOW), *of("b", 5)], {}, "h", HIGH, "low0"),
    "a higher class never does": (of("h", 9, HIGH), {}, "a", NORMAL, None),
    "all are still arriving": ([], {"b": 9}, "a", NORMAL, None),
}


@pytest.mark.parametrize(("waiting", "arriving", "key", "rank", "leaves"), PLACES.values(), ids=PLACES)
def test_a_full_queue_is_shared(
    waiting: list[Entry], arriving: dict[str | None, int], key: str | None, rank: int, leaves: str | None
) -> None:
    found = makes_way(waiting, Newcomer(key, rank), Measure(0, arriving=arriving))
    assert (found and found.id) == leaves


def heavy(key: str, *sizes: int, rank: int = NORMAL) -> list[Entry]:
    return [replace(entry(f"{key}{n}", key, rank), size=size) for n, size in enumerate(sizes)]


BYTES = {
    "there is room": (heavy("a", 40, 40), {}, Newcomer("a", NORMAL, 20), []),
    "there is none": (heavy("a", 40, 40), {}, Newcomer("a", NORMAL, 21), None),
    "one that is too large waits alone": ([], {}, Newcomer("a", NORMAL, 500), []),
    "and not beside another": (heavy("b", 1), {}, Newcomer("a", NORMAL, 500), None),
    "those that arrive hold some": (heavy("a", 40), {"b": 50}, Newcomer("a", NORMAL, 20), None),
    "who holds most makes way": (heavy("a", 10) + heavy("b", 40, 40), {}, Newcomer("a", NORMAL, 30), ["b1"]),
    "not for one who would hold as much": (heavy("b", 40, 40), {}, Newcomer("a", NORMAL, 50), None),
    "several lower ones make way": (
        heavy("low", 30, 30, 30, rank=LOW),
        {},
        Newcomer("a", NORMAL, 60),
        ["low2", "low1"],
    ),
    "nobody does where it is not enough": (heavy("low", 30, rank=LOW), {"b": 60}, Newcomer("a", NORMAL, 50), None),
}


@pytest.mark.parametrize(("waiting", "arriving", "who", "leave"), BYTES.values(), ids=BYTES)
def test_bodies_that_wait_hold_only_so_much(
    waiting: list[Entry], arriving: dict[str | None, int], who: Newcomer, leave: list[str] | None
) -> None:
    found = room(waiting, who, Measure(100, lambda each: each.size, arriving))
    assert (found if found is None else [each.id for each in found]) == leave


def test_a_body_that_would_be_too_much_with_the_others_is_refused_before_it_comes(tmp_path: Path) -> None:
    file = deployment(tmp_path, more="memory: {queue: {max_bytes: 1MiB}}\n")
    (tmp_path / "never.yaml").write_text("text: at last\nload_ms: 60000\n")
    with Up.start(file) as up, up.connection() as first, up.connection() as second, up.connection() as third:
        up.wait_for("ready")
        body = json.dumps(chat("never", "x" * 900_000)).encode()
        first.sendall(raw_post(body))
        up.until('appliance_model_waiting{model="never"}', 1)
        second.sendall(raw_post(b"", length=len(body)))
        status, headers, answer = read_response(second)
        assert (status, b"memory.queue.max_bytes" in answer) == (429, True)
        assert 1 <= int(headers["retry-after"]) <= 120
        third.sendall(raw_post(b"0", "transfer-encoding: chunked").replace(b"content-length: 1\r\n", b""))
        assert read_response(third)[0] == 429, "nobody knows how long it will be"
        assert up.post(chat("demo")).status_code == 200


KEYS = """
security:
  loopback_without_key: false
  keys: {a: {secret: sk-a-0123456789abcdef}, b: {secret: sk-b-0123456789abcdef},
         vip: {secret: sk-vip-0123456789abcdef, priority: high}}
memory: {queue: {max: 4}}
"""
HEADERS = {name: {"authorization": f"Bearer sk-{name}-0123456789abcdef"} for name in ("a", "b", "vip")}


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Up]:
    """One row, which an endless answer holds; four places, which requests of `a` hold."""
    file = deployment(tmp_path, more=KEYS)
    one_row = file.read_text().replace("endless.yaml',", "endless.yaml', concurrency: 1,")
    file.write_text(one_row)
    with Up.start(file, env={**os.environ, "APPLIANCE_HOME": str(tmp_path / "home")}) as up:
        up.wait_for("ready")
        yield up


def ask(up: Up, key: str, id: str) -> httpx.Response:
    headers = {**HEADERS[key], "x-request-id": id}
    return httpx.post(
        f"{up.url}/v1/chat/completions", json=chat("endless", max_tokens=1_000_000), headers=headers, timeout=PATIENCE
    )


def requests(up: Up, key: str) -> dict[str, str]:
    data = httpx.get(f"{up.url}/v1/requests", headers=HEADERS[key]).json()["data"]
    return {each["id"]: each["state"] for each in data}


def until(up: Up, key: str, states: dict[str, str]) -> None:
    end = time.monotonic() + PATIENCE
    while (now := requests(up, key)) != states:
        assert time.monotonic() < end, (now, states)


def test_other_keys_come_in_and_the_rest_is_refused_at_once(crowded: Up) -> None:
    up = crowded
    with ThreadPoolExecutor(8) as pool:
        asked: dict[str, Future[httpx.Response]] = {}
        states: dict[str, str] = {}
        for number in range(5):
            asked[f"a{number}"] = pool.submit(ask, up, "a", f"a{number}")
            states[f"a{number}"] = "waiting" if number else "generating"
            until(up, "a", states)
        refused = ask(up, "a", "one too many")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(refused.headers["retry-after"]) <= 120
        assert httpx.post(f"{up.url}/tokenize", json=chat("demo"), headers=HEADERS["a"]).status_code == 429
        for key, id, other, leaves in (("b", "b0", "a", "a4"), ("b", "b1", "a", "a3"), ("vip", "vip0", "b", "b1")):
            asked[id] = pool.submit(ask, up, key, id)
            left = asked[leaves].result(PATIENCE)
            assert (left.status_code, "made way" in left.text, "retry-after" in left.headers) == (429, True, True)
            assert leaves not in requests(up, other)
        assert ask(up, "b", "b2").status_code == 429
        for id, key in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("vip0", "vip")):
            while not asked[id].done():
                httpx.post(f"{up.url}/v1/requests/{id}/cancel", headers=HEADERS[key])
            assert asked[id].result().status_code == 499


def test_bodies_that_are_being_read_take_places(crowded: Up) -> None:
    up = crowded
    with ExitStack() as stack:
        socks = [stack.enter_context(up.connection()) for _ in range(5)]
        for sock in socks[:4]:
            sock.sendall(raw_post(b"{", "authorization: Bearer sk-a-0123456789abcdef", length=10_000_000))
        end = time.monotonic() + PATIENCE
        while (sent := ask_short(up)) != 429:
            assert (sent, time.monotonic() < end) == (200, True)
        for sock in socks[:4]:
            sock.close()
        while (sent := ask_short(up)) != 200:
            assert (sent, time.monotonic() < end) == (429, True)


def ask_short(up: Up) -> int:
    return up.post(chat("demo"), headers=HEADERS["b"]).status_code
