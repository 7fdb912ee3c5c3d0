"""Which pages may call, and under which names: cases, then a real appliance."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from appliance.errors import UntrustedHost, UntrustedOrigin
from appliance.server.origins import check_host, check_page
from tests.server.up import PATIENCE, Up, chat, deployment, read_response

FINE = {
    "an address": {"host": "127.0.0.1:8080"},
    "an address of another machine": {"host": "192.168.1.5:8080"},
    "a long address": {"host": "[::1]:8080"},
    "this machine's name": {"host": "localhost:8080"},
    "a name below it": {"host": "ui.localhost"},
    "no browser": {},
    "a page of ours": {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
    "a program made of pages": {"host": "localhost", "origin": "app://notes.example"},
    "a page that is listed": {"host": "localhost", "origin": "https://good.example"},
}
REFUSED: dict[str, tuple[dict[str, str], type[Exception]]] = {
    "a name that points here": ({"host": "evil.example"}, UntrustedHost),
    "with a port": ({"host": "evil.example:8080"}, UntrustedHost),
    "a name that ends like ours": ({"host": "localhost.evil.example"}, UntrustedHost),
    "a name that begins like an address": ({"host": "127.0.0.1.evil.example"}, UntrustedHost),
    "a page from elsewhere": ({"host": "localhost", "origin": "https://evil.example"}, UntrustedOrigin),
    "a page on another port": ({"host": "localhost:8080", "origin": "http://localhost:3000"}, UntrustedOrigin),
    "a page that hides where it is from": ({"host": "localhost", "origin": "null"}, UntrustedOrigin),
    "a page that is not quite listed": ({"host": "localhost", "origin": "http://good.example"}, UntrustedOrigin),
}


@pytest.mark.parametrize("headers", FINE.values(), ids=FINE)
def test_these_may_call_without_a_key(headers: dict[str, str]) -> None:
    check_page(headers, (), ("https://good.example",))


@pytest.mark.parametrize(("headers", "error"), REFUSED.values(), ids=REFUSED)
def test_these_may_not(headers: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_page(headers, (), ("https://good.example",))


HOSTS = {
    "listed": ("gpu.example", True),
    "with a port": ("GPU.example:8080", True),
    "with a dot at its end": ("gpu.example.", True),
    "another": ("evil.example", False),
    "an address that is not listed": ("127.0.0.1", False),
    "no name at all": ("", False),
    "no address": ("[::", False),
    "none sent": (None, True),
}


@pytest.mark.parametrize(("host", "fine"), HOSTS.values(), ids=HOSTS)
def test_a_list_of_hosts_is_the_whole_list(host: str | None, fine: bool) -> None:
    if fine:
        check_host(host, ("gpu.example",))
    else:
        with pytest.raises(UntrustedHost):
            check_host(host, ("gpu.example",))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    server = 'cors: ["https://good.example"], trusted_hosts: [127.0.0.1, gpu.example]'
    more = "security: {keys: {a: {secret: sesame}}}\n"
    with Up.start(deployment(tmp_path_factory.mktemp("origins"), server, more=more)) as running:
        running.wait_for("ready")
        yield running


GOOD, BAD = {"origin": "https://good.example"}, {"origin": "https://evil.example"}
KEY = {"authorization": "Bearer sesame"}


def test_a_page_that_may_call_may_read_streams_too(up: Up) -> None:
    for stream in (False, True):
        response = up.post(chat("demo", stream=stream), headers=GOOD)
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, GOOD["origin"])


def test_a_page_that_may_not_gets_nothing_of_a_model_and_may_not_read_errors(up: Up) -> None:
    response = up.post(chat("demo"), headers=BAD)
    assert (response.status_code, "access-control-allow-origin" in response.headers) == (403, False)
    assert response.json()["error"]["code"] == "untrusted_origin"


def test_who_brings_a_key_may_call_and_a_page_may_still_not_read(up: Up) -> None:
    response = up.post(chat("demo"), headers={**BAD, **KEY})
    assert (response.status_code, "access-control-allow-origin" in response.headers) == (200, False)


@pytest.mark.parametrize(("origin", "may"), [(GOOD, True), (BAD, False), ({}, False)], ids=["good", "bad", "none"])
def test_a_browser_that_asks_first_is_told(up: Up, origin: dict[str, str], may: bool) -> None:
    headers = {**origin, "access-control-request-method": "POST"}
    response = httpx.options(f"{up.url}/v1/chat/completions", headers=headers, timeout=PATIENCE)
    assert (response.status_code, "access-control-allow-methods" in response.headers) == (204, may)


@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/metrics", "/nowhere"])
def test_a_foreign_host_is_not_answered_whatever_it_asks_and_brings(up: Up, path: str) -> None:
    response = httpx.get(f"{up.url}{path}", headers={"host": "evil.example", **KEY}, timeout=PATIENCE)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "untrusted_host")
    response = httpx.get(f"{up.url}/healthz", headers={"host": "gpu.example"}, timeout=PATIENCE)
    assert response.status_code == 200


METRICS: dict[str, tuple[dict[str, str], int]] = {
    "by its address": ({}, 200),
    "by the name of this machine": ({"host": "localhost:1"}, 200),
    "by a name that somebody pointed here": ({"host": "evil.example"}, 403),
    "by such a name, with a key that is none": ({"host": "evil.example", "x-api-key": "guessed"}, 403),
    "by such a name, with a key": ({"host": "evil.example", **KEY}, 200),
    "by a page from elsewhere": ({"origin": "https://evil.example"}, 403),
}


@pytest.mark.parametrize(("headers", "status"), METRICS.values(), ids=METRICS)
def test_what_needs_no_key_is_for_no_page_of_others(keyed: Up, headers: dict[str, str], status: int) -> None:
    assert httpx.get(f"{keyed.url}/metrics", headers=headers, timeout=PATIENCE).status_code == status


AMBIGUOUS = {
    "two names": b"host: localhost\r\nhost: evil.example",
    "the same name twice": b"host: localhost\r\nhost: localhost",
    "a lone carriage return": b"host: localhost\r\nx-a: b\rx-c: d",
    "a zero": b"host: localhost\r\nx-a: b\x00c",
    "a zero in a name": b"host: localhost\r\nx\x00y: b",
    "a bell": b"host: localhost\r\nx-a: \x07",
    "a space before a colon": b"host: localhost\r\ncontent-length : 44",
    "a tab before a colon": b"host: localhost\r\ntransfer-encoding\t: chunked",
    "a letter no name has": b"host: localhost\r\ncontent-length\xa0: 44",
    "a line feed alone": b"host: localhost\r\nx-a: b\ncontent-length: 44",
    "a line without a name": b"host: localhost\r\n: b",
    "a length behind a control character": b"host: localhost\r\ncontent-length: \x0b1",
    "a length in other digits": b"host: localhost\r\ncontent-length: \xd9\xa1",
    "chunks behind a control character": b"host: localhost\r\ntransfer-encoding: \x0bchunked",
    "chunks behind a space of another kind": b"host: localhost\r\ntransfer-encoding: \xc2\xa0chunked",
    "a host behind a user": b"host: evil.example@localhost",
    "a host with a path": b"host: localhost/evil.example",
    "a host with a fragment": b"host: localhost#evil.example",
    "a host behind an address": b"host: [::1].evil.example",
    "a name in brackets": b"host: [evil.example]",
    "a host behind a space of another kind": b"host: \xc2\xa0localhost",
}
HIDDEN = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_that_others_may_read_otherwise_is_none(keyed: Up, headers: bytes) -> None:
    """Nor is what comes behind it: where that begins is as doubtful."""
    with keyed.connection() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\n" + headers + b"\r\n\r\n" + HIDDEN)
        answer = b""
        try:
            while data := sock.recv(65536):
                answer += data
        except ConnectionError:
            pass
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_header_may_hold_tabs_and_any_letters(keyed: Up) -> None:
    with keyed.connection() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a: a\tb \xc3\xa4\r\n\r\n")
        assert read_response(sock)[0] == 200


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """It needs a key, on this machine too, and has no list of its names."""
    more = "security: {loopback_without_key: false, keys: {a: {secret: sesame}}}\n"
    with Up.start(deployment(tmp_path_factory.mktemp("keyed"), more=more)) as running:
        running.wait_for("listening")
        yield running


def test_pages_are_closed_out_by_default(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path)) as running:
        running.wait_for("ready")
        response = running.post(chat("demo"), headers=GOOD)
        assert (response.status_code, "access-control-allow-origin" in response.headers) == (403, False)
