"""How a request's body is taken in: counted while it arrives, and dropped kindly when it is refused."""

import asyncio
import math

from sanic import Request

from appliance.config.deployment import ServerSettings
from appliance.errors import BodyTooLarge, SlowBody

DROP_SECONDS = 10.0
"""How long a client may go on sending a body whose answer it already has."""


async def read_body(request: Request, settings: ServerSettings) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as that is known, SlowBody after `idle_timeout` of silence."""
    max_bytes = settings.max_body
    stream = request.stream
    declared = request.headers.getone("content-length", None)
    if declared is not None and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    while stream.request_body:
        part = await _next_part(request, settings.idle_timeout)
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    # Sanic pauses reading behind a large body; without this a client that leaves would not be noticed.
    request.transport.resume_reading()
    return parts[0] if len(parts) == 1 else b"".join(parts)


def drop_body(request: Request) -> None:
    """Have what the client still sends read and forgotten behind its answer, for a bounded time.

    Closing a socket with unread bytes resets it, and the client might lose the answer it was just sent.
    """
    stream = request.stream
    if stream is None or not stream.request_body:
        return
    if stream.expecting_continue:
        # The client is holding its body back, so there is nothing to wait for.
        stream.expecting_continue = False
        stream.request_body = None
        stream.keep_alive = False
        return
    stream.request_max_size = math.inf
    asyncio.get_running_loop().call_later(DROP_SECONDS, _lose_patience, request)


def _lose_patience(request: Request) -> None:
    # Sanic takes the stream away once the body has been read to its end.
    if request.stream is not None and request.stream.request_body:
        request.transport.abort()


async def _next_part(request: Request, patience: float) -> bytes:
    try:
        async with asyncio.timeout(None if math.isinf(patience) else patience):
            return await request.stream.read() or b""
    except TimeoutError:
        raise SlowBody(f"nothing of the body came for server.idle_timeout of {patience:g} s") from None


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than server.max_body, {max_bytes} bytes")
