"""A streamed answer on the wire: when its status is decided, and what keeps it alive in silence."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sanic import HTTPResponse, Request

from appliance.config.deployment import ServerSettings
from appliance.errors import TimedOut

SERVER_SENT_EVENTS = "text/event-stream; charset=utf-8"
COMMENT = b": wait\n\n"
LAST_WORDS_SECONDS = 5.0
"""How long a client that is not reading may hold up the end of its stream."""


class EventStream:
    """Nothing is sent, and no status decided, before the first `send`. `headers` are asked for then.

    A client may stop reading for `patience` seconds.
    """

    def __init__(
        self, request: Request, headers: Callable[[], dict[str, str]], patience: float, content_type: str
    ) -> None:
        self._request = request
        self._content_type = content_type
        self._headers = headers
        self._patience = None if math.isinf(patience) else patience
        self._response: HTTPResponse | None = None
        self._commit = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._clock()

    @property
    def committed(self) -> bool:
        """Whether the client has a status: from here on errors are said in the stream."""
        return self._response is not None

    async def send(self, data: bytes) -> None:
        """Send whole events; waits while the client is slow. Raises TimedOut when it does not read at all."""
        if self._response is None:
            async with self._commit:
                if self._response is None:
                    self._response = await self._respond()
        if self._request.transport.get_write_buffer_size() == 0:
            await self._response.send(data)
        else:
            await self._send_slowly(self._response, data)
        self._sent_at = self._clock()

    async def _send_slowly(self, response: HTTPResponse, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await response.send(data)
        except TimeoutError:
            raise TimedOut(f"the client read nothing for server.idle_timeout of {self._patience:g} s") from None

    async def finish(self, data: bytes) -> None:
        """Send the last events and end the stream; a client that does not read is cut off."""
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self.send(data)
                assert self._response is not None
                await self._response.eof()
        except (TimeoutError, TimedOut):
            self._request.transport.abort()

    @asynccontextmanager
    async def beating(self, seconds: float, beat: Callable[[], bytes]) -> AsyncIterator[None]:
        """Within the block, what `beat` makes is sent whenever nothing else was for this long."""
        task = asyncio.get_running_loop().create_task(self._beat(seconds, beat))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _beat(self, seconds: float, beat: Callable[[], bytes]) -> None:
        while True:
            left = self._sent_at + seconds - self._clock()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self.send(beat())

    async def _respond(self) -> HTTPResponse:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no", **self._headers()}
        return await self._request.respond(content_type=self._content_type, headers=headers)


async def follow(
    request: Request, settings: ServerSettings, events: AsyncIterator[bytes], headers: dict[str, str]
) -> None:
    """Send what is made without this request, to its end or until the client leaves."""
    out = EventStream(request, lambda: headers, settings.idle_timeout, SERVER_SENT_EVENTS)
    try:
        async with out.beating(settings.heartbeat, lambda: COMMENT):
            async for data in events:
                await out.send(data)
    except TimedOut:
        request.transport.abort()
        return
    await out.finish(b"")
