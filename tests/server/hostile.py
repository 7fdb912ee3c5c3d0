"""Requests nobody means well with, made from a seed: the same number gives the same bytes."""

import json
import random
from collections.abc import Callable

PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/completions", "/v1/responses", "/api/chat", "/v1/models/x")
NAMES = (
    "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "demo\x00", "~/.ssh/id_rsa", "file:///etc/passwd",
    "demo/../../x", "C:\\windows", "hf:../../x", "demo\r\nx-evil: 1", "${env:HOME}", "{{7*7}}", "a" * 600,
)  # fmt: skip


def _post(body: bytes, path: str = PATHS[0], *headers: str, length: str | None = None) -> bytes:
    announced = str(len(body)) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {announced}", *headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def _chat(model: str, content: str = "hi") -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 2}).encode()


def _depth(r: random.Random) -> bytes:
    depth, (left, right) = r.choice((100, 3_000, 40_000)), r.choice(((b"[", b"]"), (b'{"a":', b"}")))
    bomb = left * depth + b"1" + right * r.choice((0, depth))
    field = r.choice((b"messages", b"tools", b"metadata", b"response_format", b"chat_template_kwargs"))
    return _post(r.choice((bomb, b'{"model":"demo","%b":%b}' % (field, bomb))), r.choice(PATHS))


def _headers(r: random.Random) -> bytes:
    kind = r.randrange(3)
    if kind == 0:
        return _post(_chat("demo"), PATHS[0], f"x-big: {'a' * r.choice((9_000, 20_000, 200_000))}")
    if kind == 1:
        return _post(_chat("demo"), PATHS[0], *(f"x-{n}: {n}" for n in range(r.choice((500, 5_000)))))
    return b"GET /" + b"a" * r.choice((9_000, 100_000)) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"


def _smuggling(r: random.Random) -> bytes:
    hidden, line = (
        b"GET /admin HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n",
    )
    return line + r.choice((
        b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        b"transfer-encoding: chunked\r\ncontent-length: 400\r\n\r\n0\r\n\r\n" + hidden,
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
        b"transfer-encoding: xchunked\r\n\r\n" + hidden,
        b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
        b"content-length: 5\r\ncontent-length: 50\r\n\r\nhello" + hidden,
        b"content-length: -5\r\n\r\nhello", b"content-length: 5x\r\n\r\nhello", b"content-length: 0x5\r\n\r\nhello",
        b"content-length: " + b"9" * 400 + b"\r\n\r\nx", b"content-length: +5\r\n\r\nhello",
        b"transfer-encoding: chunked\r\n\r\nzz\r\nhello", b"transfer-encoding: chunked\r\n\r\n-1\r\nhello",
        b"transfer-encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\nhello",
        b"transfer-encoding: chunked\r\n\r\n5\r\nhelloworld", b": no name\r\n\r\n", b"no colon\r\n\r\n",
        b"x\x00y: 1\r\ncontent-length: 0\r\n\r\n", b"x: a\nb: c\r\n d: folded\r\n\r\n",
    ))  # fmt: skip


def _text(r: random.Random) -> bytes:
    bad = r.choice((b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\x00", b'"\\ud800"', b"\xf0\x9f", b"\x1b[31m"))
    whole = b'{"model":"demo","max_tokens":2,"messages":[{"role":"user","content":"%b"}]}' % bad
    return _post(r.choice((whole, bad * 500, whole[: r.randrange(1, len(whole))])), r.choice(PATHS))


def _name(r: random.Random) -> bytes:
    name = r.choice(NAMES)
    if r.random() < 0.5:
        return _post(_chat(name), r.choice(PATHS))
    quoted = "".join(f"%{byte:02x}" for byte in name.encode()) if r.random() < 0.5 else name.replace("\r\n", "")
    return f"GET /v1/models/{quoted} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode("latin-1", "replace")


def _values(r: random.Random) -> bytes:
    value = r.choice(
        (b"1e999", b"-1e999", b"9" * 5_000, b"1" + b"0" * 30, b"NaN", b'""', b"[]", b"{}", b"null", b"-0", b"true")
    )
    field = r.choice((b"temperature", b"max_tokens", b"seed", b"n", b"top_k", b"stop", b"logit_bias", b"model",
                      b"messages", b"tools", b"stream", b"response_format", b"priority", b"keep_alive",
                      b"cache_salt"))  # fmt: skip
    whole = b'{"model":"demo","messages":[{"role":"user","content":"x"}],"max_tokens":2,"%b":%b}' % (field, value)
    return _post(whole, r.choice(PATHS))


def _garbage(r: random.Random) -> bytes:
    kind = r.randrange(4)
    if kind == 0:
        return r.randbytes(r.randrange(1, 3_000))
    if kind == 1:
        return r.randbytes(20) + b"\r\n\r\n"
    if kind == 2:
        return _post(r.randbytes(r.randrange(2_000)), r.choice(PATHS))
    method = r.choice((b"PUT", b"TRACE", b"CONNECT", b"get", b"PRI", b"X" * 300))
    return method + b" * HTTP/" + r.choice((b"1.1", b"2.0", b"9.9", b"x")) + b"\r\nhost: localhost\r\n\r\n"


def _early_end(r: random.Random) -> bytes:
    whole = _post(_chat("demo"), r.choice(PATHS))
    return whole[: r.randrange(1, len(whole))]


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    _depth, _headers, _smuggling, _text, _name, _values, _garbage, _early_end,
)  # fmt: skip


def hostile(number: int) -> bytes:
    """The request of this number; every kind has its turn."""
    return KINDS[number % len(KINDS)](random.Random(number))
