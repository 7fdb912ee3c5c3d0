"""One client's connection: how long it may take to say what it wants."""

from time import monotonic

from sanic.exceptions import RequestTimeout
from sanic.http import Stage
from sanic.server.protocols.http_protocol import HttpProtocol

HEADER_SECONDS = 30.0
"""For a request's line and headers, from their first byte to their last, however evenly they come."""


class Connection(HttpProtocol):
    """As Sanic's, which counts silence only: a byte now and then would hold a connection for ever."""

    _asking: float | None = None
    """Since when its request has been coming, of the monotonic clock."""

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
