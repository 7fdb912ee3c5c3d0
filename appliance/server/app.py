"""The HTTP application: which path is answered by what, and how Sanic is told to stay out of the way."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial

from sanic import HTTPResponse, Request, Sanic
from sanic.application.state import ApplicationServerInfo
from sanic.config import Config
from sanic.exceptions import NotFound
from sanic.http.constants import HTTP

from appliance import log
from appliance.errors import BadRequest
from appliance.server import batch_routes, file_routes, message_batch_routes, ollama_routes, pages, responses, routes
from appliance.server.adapters import ADAPTERS
from appliance.server.apis import check_spoken
from appliance.server.context import Context
from appliance.server.counting import QUESTIONS, answer
from appliance.server.edge import answer_error, arrive, stamp
from appliance.server.generation import serve
from appliance.server.openapi import descriptions
from appliance.server.origins import check_host, granted, preflight
from appliance.server.request_head import fault

Handler = Callable[..., Awaitable[HTTPResponse | None]]

READS: dict[str, Handler] = {
    "/v1/models": routes.list_models,
    "/v1/models/<id:path>": routes.show_model,
    "/v1/responses/<id:str>": responses.show,
    "/v1/responses/<id:str>/input_items": responses.input_items,
    "/v1/files": file_routes.index,
    "/v1/files/<id:str>": file_routes.show,
    "/v1/files/<id:str>/content": file_routes.content,
    "/v1/batches": batch_routes.index,
    "/v1/batches/<id:str>": batch_routes.show,
    "/v1/messages/batches": message_batch_routes.index,
    "/v1/messages/batches/<id:str>": message_batch_routes.show,
    "/v1/messages/batches/<id:str>/results": message_batch_routes.results,
    "/v1/requests": routes.list_requests,
    "/": ollama_routes.root,
    "/api/tags": ollama_routes.tags,
    "/api/ps": ollama_routes.ps,
    "/api/version": ollama_routes.version,
    "/healthz": routes.health,
    "/health": routes.health,
    "/readyz": routes.ready,
    "/version": routes.version,
}
"""Answered to GET and HEAD."""

WRITES: dict[str, Handler] = {
    **{path: partial(serve, endpoint=path, adapter=adapter) for path, adapter in ADAPTERS.items()},
    **{path: partial(answer, endpoint=path, question=question) for path, question in QUESTIONS.items()},
    "/v1/responses/<id:str>/cancel": responses.cancel,
    "/v1/files": file_routes.upload,
    "/v1/batches": batch_routes.create,
    "/v1/batches/<id:str>/cancel": batch_routes.cancel,
    "/v1/messages/batches": message_batch_routes.create,
    "/v1/messages/batches/<id:str>/cancel": message_batch_routes.cancel,
    "/v1/requests/<id:str>/cancel": routes.cancel_request,
    "/api/show": ollama_routes.show,
}
"""Answered to POST; a handler that wants the body reads it itself."""

DELETES: dict[str, Handler] = {
    "/v1/responses/<id:str>": responses.delete,
    "/v1/files/<id:str>": file_routes.delete,
    "/v1/messages/batches/<id:str>": message_batch_routes.delete,
}
"""Answered to DELETE."""

FREE = frozenset({responses.cancel, batch_routes.cancel, message_batch_routes.cancel, routes.cancel_request})
"""A key with no room left may still make some."""

OPEN = frozenset({"/healthz", "/health", "/readyz"})
"""Answered to anyone: they say nothing of what is asked and answered."""

OTHER = "other"
"""The endpoint of a request to any other path, as it is counted: clients choose what paths they try."""

NEVER = 10.0**9
HEADER_SILENCE_SECONDS = 10
MAX_HEADER_BYTES = 16_384
KEEP_ALIVE_SECONDS = 120


def build_app(context: Context) -> Sanic:
    """An application that answers from `context`; several may live in one process."""
    app = quiet_app(f"appliance-{id(context):x}")
    for path, handler in READS.items():
        bind = _bind if path in OPEN else _inside
        app.add_route(bind(handler, context), path, methods=["GET", "HEAD"], name=_name(path), ignore_body=True)
    for path, handler in WRITES.items():
        app.add_route(_inside(handler, context), path, methods=["POST"], name=f"post_{_name(path)}", stream=True)
    for path, handler in descriptions(context.version, {**READS, **pages.DEFAULTS}, WRITES, DELETES).items():
        app.add_route(_inside(handler, context), path, methods=["GET", "HEAD"], name=_name(path), ignore_body=True)
    for path, handler in DELETES.items():
        app.add_route(_inside(handler, context), path, methods=["DELETE"], name=f"delete_{_name(path)}")
    app.error_handler.add(NotFound, partial(pages.elsewhere, context))
    app.error_handler.add(Exception, answer_error)
    app.register_middleware(partial(_number, context), "response")
    app.register_middleware(partial(_tally, context), "response")
    app.register_middleware(partial(_admit, context), "request")
    app.register_middleware(partial(_grant, context), "response")
    return app


def _admit(context: Context, request: Request) -> HTTPResponse | None:
    """Raises UntrustedHost, and BadRequest for headers that whoever passed them on may have read otherwise. Browsers
    that ask whether a page may call are answered here.
    """
    server = context.running.deployment.server
    if (wrong := fault(request.head)) is not None:
        request.stream.keep_alive = False  # where the next one begins is as doubtful
        raise BadRequest(wrong)
    check_host(request.headers.getone("host", None), server.trusted_hosts)
    if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
        asked = request.headers.getone("origin", None)
        return HTTPResponse(status=204, headers=preflight(asked, server.cors))
    return None


def _grant(context: Context, request: Request, response: HTTPResponse) -> None:
    server = context.running.deployment.server
    if request.method != "OPTIONS":
        response.headers.update(granted(request.headers.getone("origin", None), server.cors))


def _number(context: Context, request: Request, response: HTTPResponse) -> None:
    """Say which generation answered: the one a request began with, else the one in force."""
    response.headers.setdefault("x-appliance-generation", str(context.running.generation))


def _tally(context: Context, request: Request, response: HTTPResponse) -> None:
    """Count a refusal that came before anything counted the request: of the door, or where nothing is."""
    if response.status < 400 or request.path in OPEN or hasattr(request.ctx, "tallied"):
        return
    endpoint = request.path if request.path in ADAPTERS or request.path in QUESTIONS else OTHER
    context.counted.requests.add(endpoint, "", str(response.status))


def quiet_app(name: str) -> Sanic:
    """An application without routes, told to leave logs, time limits and errors to us."""
    _silence()
    app = Sanic(name, config=_config(), configure_logging=False, strict_slashes=False)
    # Sanic would send an empty alt-svc header unless it knows that HTTP/1.1 is all there is.
    app.state.server_info.append(ApplicationServerInfo(settings={"version": HTTP.VERSION_1}))
    app.register_middleware(arrive, "request")
    app.register_middleware(stamp, "response")
    return app


def _bind(handler: Handler, context: Context) -> Handler:
    return partial(_call, handler, context)


def _inside(handler: Handler, context: Context) -> Handler:
    return partial(_call_inside, handler, context)


async def _call(handler: Handler, context: Context, request: Request, **parts: str) -> HTTPResponse | None:
    return await handler(request, context, **parts)


async def _call_inside(handler: Handler, context: Context, request: Request, **parts: str) -> HTTPResponse | None:
    """Behind the door, which is passed before anything of a body is read; what only looks or ends something costs no
    key anything.
    """
    key = context.door.key_of(request)
    check_spoken(context.running.deployment, request.path)
    limited = key if request.method == "POST" and handler not in FREE else None
    with log.bound(key=key.name) if key else nullcontext(), context.door.passing(request, limited) as passage:
        request.ctx.key, request.ctx.passage = key, passage
        return await handler(request, context, **parts)


def _name(path: str) -> str:
    return path.strip("/").translate(str.maketrans("/<:>", "____")) or "root"


def _config() -> Config:
    """RESPONSE_TIMEOUT counts silence and the time of the handler, so it would cut long generations:
    our own deadlines take its place.
    """
    config = Config(env_prefix=None)
    config.RESPONSE_TIMEOUT = NEVER
    config.REQUEST_TIMEOUT = HEADER_SILENCE_SECONDS
    config.KEEP_ALIVE_TIMEOUT = KEEP_ALIVE_SECONDS
    config.REQUEST_MAX_HEADER_SIZE = MAX_HEADER_BYTES
    # Bodies are limited where they are read; what is left here are refused ones, read only to be dropped.
    config.REQUEST_MAX_SIZE = 2**62
    config.ACCESS_LOG = False
    config.AUTO_EXTEND = False
    config.MOTD = False
    config.FALLBACK_ERROR_FORMAT = "json"
    return config


class _Forward(logging.Handler):
    """What Sanic finds worth an error, in our log."""

    def emit(self, record: logging.LogRecord) -> None:
        if "body not consumed" not in record.getMessage():  # a GET with a Content-Length: harmless, and frequent
            log.get().warning("http.error", error=record.getMessage(), exc_info=record.exc_info or None)


def _silence() -> None:
    for name in ("sanic.root", "sanic.access", "sanic.server", "sanic.websockets"):
        logging.getLogger(name).disabled = True
    errors = logging.getLogger("sanic.error")
    errors.handlers, errors.propagate = [_Forward(logging.ERROR)], False
