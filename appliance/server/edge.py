"""The request edge: every error, ours or Sanic's or a bug, becomes one answer in the client's protocol here."""

import errno
import os
import re
import time
from collections.abc import Mapping
from uuid import uuid4

from sanic import HTTPResponse, Request, exceptions

from appliance import log
from appliance.errors import (
    ApplianceError,
    BadRequest,
    BodyTooLarge,
    NotStored,
    SlowBody,
    Unavailable,
    UnknownPath,
    WrongMethod,
)
from appliance.protocols.errors import error_headers, shape_of
from appliance.server.body import drop_body

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT, errno.ENOTDIR)
"""What keeps a file from being written or read that is not ours to mend; connections fail with others."""

_ID = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")


def arrive(request: Request) -> None:
    """Note when a request came in."""
    request.ctx.arrived = time.perf_counter()


def stamp(request: Request, response: HTTPResponse) -> None:
    """Give an answer its id, under the names both SDK families read."""
    response.headers["x-request-id"] = response.headers["request-id"] = request_id(request)
    response.headers.update(getattr(request.ctx, "rates", {}))
    if (arrived := getattr(request.ctx, "arrived", None)) is not None:
        response.headers["openai-processing-ms"] = f"{(time.perf_counter() - arrived) * 1000:.0f}"


def request_id(request: Request) -> str:
    """The id of this request: the client's `x-request-id`, or one of ours where it sent none that can be used."""
    if not hasattr(request.ctx, "id"):
        sent = request.headers.getone("x-request-id", "")
        request.ctx.id = sent if _ID.fullmatch(sent) else f"req_{uuid4().hex}"
    return str(request.ctx.id)


def json_response(body: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> HTTPResponse:
    """An answer of encoded JSON."""
    return HTTPResponse(body, status=status, headers=dict(headers or {}), content_type="application/json")


def answer_error(request: Request, raised: Exception) -> HTTPResponse:
    """Say what went wrong; a body the client is still sending is dropped once it has its answer."""
    if isinstance(raised, exceptions.RequestCancelled):
        return HTTPResponse(status=499)
    error = as_ours(request, raised)
    drop_body(request)
    body = shape_of(request.path, request.headers)(error, request_id(request))
    return json_response(body, {**error_headers(error), **_allow(raised)}, error.status)


def as_ours(request: Request, raised: Exception) -> ApplianceError:
    """The error of our hierarchy that says this. What we did not expect is logged, and its text kept from clients."""
    match raised:
        case ApplianceError():
            return raised
        case exceptions.MethodNotAllowed():
            return WrongMethod(f"{request.method} is not allowed on {_path(request)}")
        case exceptions.NotFound():
            return UnknownPath(f"there is nothing at {_path(request)}")
        case exceptions.PayloadTooLarge():
            return BodyTooLarge("the request's headers are larger than 16 KiB")
        case exceptions.RequestTimeout():
            return SlowBody("the request's headers did not arrive in time")
        case exceptions.ServiceUnavailable():
            return Unavailable("the server gave up on this request")
        case exceptions.SanicException() if 400 <= (raised.status_code or 500) < 500:
            return BadRequest(f"the request is not valid HTTP: {raised}")
        case OSError() if raised.errno in _DISK:
            log.get().error(
                "request.not_stored", request=request_id(request), path=_path(request), reason=str(raised)
            )
            return NotStored(f"the server's disk cannot be used for this: {os.strerror(raised.errno)}")
        case _:
            log.get().error("request.bug", request=request_id(request), path=_path(request), exc_info=raised)
            return ApplianceError(f"an internal error; the server's log has it under {request_id(request)}")


def _allow(raised: Exception) -> dict[str, str]:
    if not isinstance(raised, exceptions.MethodNotAllowed):
        return {}
    allowed = sorted(raised.headers.get("Allow", "").replace(",", " ").split())
    return {"allow": ", ".join(allowed)}


def _path(request: Request) -> str:
    return request.path[:200]
