"""How what a request says is taken in: a body counted while it arrives, and dropped kindly when it is refused."""

import asyncio
import math
from collections.abc import AsyncIterator

from sanic import Request
from sanic.exceptions import PayloadTooLarge

from appliance.config.deployment import ServerSettings
from appliance.errors import BodyTooLarge, SlowBody, UnsupportedEncoding

SLOWEST = 1024
"""Bytes a second, once `idle_timeout` has passed: a byte now and then would hold a connection for ever."""
DROP_SECONDS = 10.0
"""How long a client may go on sending a body whose answer it already has."""


async def read_body(request: Request, settings: ServerSettings) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as that is known, SlowBody after `idle_timeout` of silence,
    UnsupportedEncoding for one that is compressed.
    """
    limit = f"server.max_body, {settings.max_body} bytes"
    return b"".join([part async for part in parts(request, settings.max_body, settings.idle_timeout, limit)])


async def parts(request: Request, max_bytes: int, patience: float, limit: str) -> AsyncIterator[bytes]:
    """The body as it comes; `limit` says what it may not be larger than. Raises as `read_body`."""
    stream, too_large = request.stream, BodyTooLarge(f"the body is larger than {limit}")
    _check_encoding(request)
    declared = request.headers.getone("content-length", None)
    if declared is not None and int(declared) > max_bytes:
        raise too_large
    size, now = 0, asyncio.get_running_loop().time
    began = now()
    while stream.request_body:
        try:
            part = await _next_part(request, patience, max_bytes)
        except PayloadTooLarge:
            raise too_large from None
        size += len(part)
        if now() - began > patience + size / SLOWEST:
            raise SlowBody(f"the body came more slowly than {SLOWEST} bytes a second")
        if size > max_bytes:
            raise too_large
        yield part
    # Sanic pauses reading behind a large body; without this a client that leaves would not be noticed.
    request.transport.resume_reading()


def query(request: Request) -> dict[str, str]:
    """The parameters of the URL; of a repeated one the first."""
    return {name: values[0] for name, values in request.args.items()}


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


async def _next_part(request: Request, patience: float, max_bytes: int) -> bytes:
    """Raises PayloadTooLarge where a chunk is announced that does not fit, before it comes."""
    stream = request.stream
    stays, most, stream.request_max_size = stream.keep_alive, stream.request_max_size, max_bytes
    try:
        async with asyncio.timeout(None if math.isinf(patience) else patience):
            return await stream.read() or b""
    except TimeoutError:
        raise SlowBody(f"nothing of the body came for server.idle_timeout of {patience:g} s") from None
    except PayloadTooLarge:
        stream.keep_alive = stays  # what comes is dropped, and the next request answered
        raise
    finally:
        stream.request_max_size = most


def _check_encoding(request: Request) -> None:
    """Bodies are text, on a machine's own network or in it: to unpack them would only take a bomb in."""
    encoding = request.headers.getone("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise UnsupportedEncoding(f"the body has the Content-Encoding {encoding[:40]!r}: send it as it is, unpacked")
