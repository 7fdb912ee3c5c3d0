"""Forms as they arrive: the same whatever the pieces, and what is wrong is said."""

from collections.abc import Iterable

import httpx
import pytest

from appliance.errors import BadRequest
from appliance.protocols.multipart import Head, Multipart, boundary_of

FORMS: dict[str, tuple[dict[str, str], bytes]] = {
    "plain": ({"purpose": "batch"}, b'{"a": 1}\n'),
    "an empty file": ({"purpose": "batch"}, b""),
    "line breaks and dashes": ({"a": "", "b": "x"}, b"\r\n--\r\n--x\r\n\r\n-\r"),
    "any bytes": ({}, bytes(range(256)) * 3),
}


def body(fields: dict[str, str], content: bytes) -> tuple[bytes, bytes]:
    """A form as a client writes it, and its boundary."""
    request = httpx.Request("POST", "http://x", data=fields, files={"file": ('a "q".jsonl', content)})
    return request.read(), boundary_of(request.headers["content-type"])


def read(pieces: Iterable[bytes], boundary: bytes) -> list[tuple[Head, bytes]]:
    reader = Multipart(boundary)
    parts: list[tuple[Head, bytes]] = []
    for piece in pieces:
        for said in reader.feed(piece):
            if isinstance(said, Head):
                parts.append((said, b""))
            else:
                parts[-1] = (parts[-1][0], parts[-1][1] + said)
    reader.close()
    return parts


@pytest.mark.parametrize(("fields", "content"), FORMS.values(), ids=FORMS.keys())
def test_a_form_is_the_same_wherever_it_is_cut(fields: dict[str, str], content: bytes) -> None:
    whole, boundary = body(fields, content)
    expected = read([whole], boundary)
    assert [(head.name, data) for head, data in expected] == [
        *((name, value.encode()) for name, value in fields.items()), ("file", content),
    ]  # fmt: skip
    assert expected[-1][0].filename is not None
    for at in range(len(whole) + 1):
        assert read([whole[:at], whole[at:]], boundary) == expected
    assert read([whole[at : at + 1] for at in range(len(whole))], boundary) == expected


def test_text_around_the_parts_is_nothing() -> None:
    whole, boundary = body({}, b"x")
    assert [data for _, data in read([b"hello\r\n" + whole + b"bye"], boundary)] == [b"x"]


BROKEN = {
    "no end": b'--b\r\ncontent-disposition: form-data; name="file"\r\n\r\nabc',
    "no name": b"--b\r\ncontent-type: text/plain\r\n\r\nabc\r\n--b--",
    "a head without end": b"--b\r\n" + b"x: y\r\n" * 4000,
    "nothing": b"",
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_form_is_refused(sent: bytes) -> None:
    with pytest.raises(BadRequest):
        read([sent], b"b")


TYPES = {
    "plain": ("multipart/form-data; boundary=abc", b"abc"),
    "quoted": ('multipart/form-data; charset=utf-8; boundary="a b c"', b"a b c"),
    "capitals": ("Multipart/Form-Data; Boundary=abc", b"abc"),
}


@pytest.mark.parametrize(("said", "boundary"), TYPES.values(), ids=TYPES.keys())
def test_the_boundary_is_the_types(said: str, boundary: bytes) -> None:
    assert boundary_of(said) == boundary


@pytest.mark.parametrize("said", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=a"])
def test_another_type_is_refused(said: str) -> None:
    with pytest.raises(BadRequest, match="multipart/form-data"):
        boundary_of(said)
