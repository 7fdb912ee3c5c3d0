"""`multipart/form-data` as it arrives: bytes in, the parts' heads and contents out; holds back only what may be a
boundary (RFC 2046, section 5.1; RFC 7578).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from appliance.errors import BadRequest

MAX_HEAD = 16_384

_BOUNDARY = re.compile(r'multipart/form-data\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*(name|filename)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Head:
    """A part begins. `filename` is None for a plain field."""

    name: str
    filename: str | None


class _State(Enum):
    BEFORE, HEAD, CONTENT, END = range(4)


def boundary_of(content_type: str) -> bytes:
    """The boundary a Content-Type names. Raises BadRequest where it is another type."""
    found = _BOUNDARY.match(content_type.strip())
    if found is None:
        raise BadRequest("the body must be multipart/form-data: send the file as a form's field `file`")
    return (found[1] or found[2]).encode()


class Multipart:
    """Feed bytes as they come; what comes out is a `Head` per part, then the bytes of its content."""

    def __init__(self, boundary: bytes) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._buffer = bytearray(b"\r\n")  # the first delimiter has no line before it
        self._state = _State.BEFORE

    def feed(self, data: bytes) -> Iterator[Head | bytes]:
        """What these bytes complete. Raises BadRequest."""
        self._buffer += data
        while True:
            match self._state:
                case _State.BEFORE | _State.CONTENT:
                    at = self._buffer.find(self._delimiter)
                    content = self._take(at if at >= 0 else max(0, len(self._buffer) - len(self._delimiter) + 1))
                    if content and self._state is _State.CONTENT:
                        yield content
                    if at < 0:
                        return
                    self._take(len(self._delimiter))
                    self._state = _State.HEAD
                case _State.HEAD:
                    if self._buffer[:2] == b"--":
                        self._state = _State.END
                        continue
                    if (at := self._buffer.find(b"\r\n\r\n")) < 0:
                        if len(self._buffer) > MAX_HEAD:
                            raise BadRequest(f"a part's headers are larger than {MAX_HEAD} bytes")
                        return
                    yield _head(self._take(at))
                    self._take(4)
                    self._state = _State.CONTENT
                case _State.END:
                    self._buffer.clear()
                    return

    def close(self) -> None:
        """The body is over. Raises BadRequest where the form was not."""
        if self._state is not _State.END:
            raise BadRequest("the form ends before its last boundary")

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _head(raw: bytes) -> Head:
    """The name and the file name of a `Content-Disposition`. Raises BadRequest."""
    lines = raw.decode("utf-8", "replace").split("\r\n")
    said = next((line for line in lines if line.lower().startswith("content-disposition:")), "")
    found = {key.lower(): re.sub(r"\\(.)", r"\1", value) for key, value in _PARAMETER.findall(said)}
    if "name" not in found:
        raise BadRequest("a part of the form has no name")
    return Head(found["name"], found.get("filename"))
