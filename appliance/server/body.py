"""How a request's body is taken in: counted while it arrives, and dropped kindly when it is refused."""

import asyncio
import math

from sanic import Request

from appliance.errors import BodyTooLarge, SlowBody

SILENCE_SECONDS = 30.0
"""A client that sends nothing for this long in the middle of a body is told so."""

DROP_SECONDS = 10.0
"""How long a client may go on sending a body whose answer it already has."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as that is known, or SlowBody."""
    stream = request.stream
    declared = request.headers.getone("content-length", None)
    if declared is not None and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    while stream.request_body:
        part = await _next_part(request)
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    # Sanic pauses reading behind a large body; without this a client that leaves would not be noticed.
    request.transport.resume_reading()
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def drop_body(request: Request) -> None:
    """Read and forget what the client still sends, for a bounded time.

    Closing a socket with unread bytes resets it, and the client might lose the answer it was just sent.
    """
    stream = request.stream
    if stream is None or not stream.request_body:
        return
    stream.request_max_size = math.inf
    try:
        async with asyncio.timeout(DROP_SECONDS):
            async for _ in stream:
                pass
    except TimeoutError:
        stream.keep_alive = False
        stream.request_body = None


def refuse_body(request: Request) -> None:
    """Do not ask for a body the client has announced and is holding back."""
    stream = request.stream
    if stream is not None and getattr(stream, "expecting_continue", False):
        stream.expecting_continue = False
        stream.request_body = None
        stream.keep_alive = False


async def _next_part(request: Request) -> bytes:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await request.stream.read() or b""
    except TimeoutError:
        raise SlowBody(f"the body did not arrive: nothing was sent for {SILENCE_SECONDS:g} s") from None


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than server.max_body, {max_bytes} bytes")
