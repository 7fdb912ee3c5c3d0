"""One client's connection: how long it may take to say what it wants, and an answer to what cannot be read."""

import re
from time import monotonic
from typing import Any

from sanic.exceptions import BadURL, RequestTimeout
from sanic.http import Http, Stage
from sanic.server.protocols.http_protocol import HttpProtocol

_LENGTH = re.compile(r"[0-9A-Fa-f]+[ \t]*")
HEADER_SECONDS = 30.0
"""For a request's line and headers, from their first byte to their last, however evenly they come."""


class Exchange(Http):  # type: ignore[misc]
    """As Sanic's, which cannot say what is wrong with a URL that is none, and reads lengths as Python does."""

    @staticmethod
    def _safe_int(value: str, base: int = 10) -> int:
        """A body's or chunk's length. Raises ValueError where others may read another one: 0x5, a space before,
        digits of other scripts (RFC 9112, 7.1).
        """
        if not _LENGTH.fullmatch(value):
            raise ValueError(value)
        return int(value, base)

    def create_empty_request(self) -> None:
        """What an error is answered to where there is no request yet."""
        try:
            super().create_empty_request()
        except BadURL:
            self.url = None
            super().create_empty_request()


class Connection(HttpProtocol):  # type: ignore[misc]
    """As Sanic's, which counts silence only: a byte now and then would hold a connection for ever."""

    HTTP_CLASS = Exchange
    # Since when a request has been coming, by the monotonic clock.
    __slots__ = ("_asking",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asking: float | None = None

    def check_timeouts(self) -> None:
        """Called by itself, again and again."""
        http = self._http
        asking = http is not None and http.stage is Stage.REQUEST
        if not asking:
            self._asking = None
        elif self._asking is None:
            self._asking = monotonic()
        elif monotonic() - self._asking > HEADER_SECONDS and self._task:
            http.exception = RequestTimeout("Request Timeout")
            self._task.cancel("the headers take too long")
            return
        super().check_timeouts()
