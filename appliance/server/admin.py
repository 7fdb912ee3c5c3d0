"""The admin socket: its table of routes, and how it opens and closes."""

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sanic import HTTPResponse, Request, Sanic
from sanic.server.protocols.http_protocol import HttpProtocol

from appliance.config.problem import Rejected
from appliance.protocols.errors import error_headers, error_object
from appliance.server import admin_routes as routes
from appliance.server import admin_types as types
from appliance.server.admin_routes import Admin
from appliance.server.app import quiet_app
from appliance.server.edge import as_ours
from appliance.server.listen import BACKLOG

BASE = "/admin/v1"
DOCUMENT = f"{BASE}/openapi.json"


@dataclass(frozen=True, slots=True)
class Route:
    """`path` in OpenAPI's form; `query` are parameters, `statuses` errors it may answer with beside 400 and 500.

    A guarded one is done only to the generation that `If-Match` names, if it names one.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[HTTPResponse | None]]
    answer: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    guarded: bool = False
    success: int = 200
    statuses: tuple[int, ...] = ()


WAIT = ("wait", "timeout")

ROUTES = (
    Route("GET", "/status", routes.status, types.StatusAnswer, query=WAIT),
    Route("GET", "/config", routes.config, types.ConfigAnswer),
    Route("POST", "/config", routes.propose, types.PlanAnswer, query=("dry_run",), statuses=(422,)),
    Route("POST", "/reload", routes.reload, types.AppliedAnswer, types.ReloadBody, WAIT, guarded=True,
          statuses=(409, 412, 422)),
    Route("GET", "/generations", routes.generations, types.GenerationsAnswer),
    Route("GET", "/generations/{number}", routes.generation, types.GenerationDetail, statuses=(404,)),
    Route("POST", "/rollback", routes.rollback, types.AppliedAnswer, types.RollbackBody, WAIT, guarded=True,
          statuses=(404, 412, 422)),
    Route("GET", "/events", routes.events),
    Route("GET", "/decisions", routes.decisions, types.DecisionsAnswer),
    Route("GET", "/models/{name}/cache", routes.cache, types.CacheAnswer, statuses=(404,)),
    Route("POST", "/models/{name}/load", routes.load, types.ModelAnswer, query=("timeout",), guarded=True,
          statuses=(404, 412, 503, 504)),
    Route("POST", "/models/{name}/unload", routes.unload, types.ModelAnswer, query=("now",), guarded=True,
          statuses=(404, 409, 412)),
    Route("POST", "/models/{name}/pin", routes.pin, types.ModelAnswer, query=("for",), guarded=True,
          statuses=(404, 412)),
    Route("POST", "/shutdown", routes.shutdown, types.Accepted, guarded=True, success=202, statuses=(412,)),
)  # fmt: skip
"""All that the socket answers, below BASE, and its OpenAPI document."""


def build_admin(admin: Admin, document: bytes) -> Sanic[Any, Any]:
    """The application behind the admin socket."""
    app = quiet_app(f"appliance-admin-{id(admin):x}")
    # Sanic rewrites its own classes for the first application that starts, and cannot do it twice.
    app.config.TOUCHUP = False

    async def describe(request: Request) -> HTTPResponse:
        return HTTPResponse(document, content_type="application/json")

    app.add_route(describe, DOCUMENT, methods=["GET"], name="openapi")
    for route in ROUTES:
        path = f"{BASE}{route.path.replace('{', '<').replace('}', '>')}"
        name = f"{route.method}{route.path.translate(str.maketrans('/{}', '___'))}"
        app.add_route(
            partial(_call, route, admin),
            path,
            methods=[route.method],
            name=name,
            stream=route.method == "POST",
        )
    app.error_handler.add(Exception, _answer_error)
    return app


async def _call(route: Route, admin: Admin, request: Request, **parts: str) -> HTTPResponse | None:
    if request.method == "POST":
        await request.receive_body()
    if route.guarded:
        routes.guard(request, admin)
    return await route.handler(request, admin, **parts)


def _answer_error(request: Request, raised: Exception) -> HTTPResponse:
    error = as_ours(request, raised)
    problems = [types.problem(found) for found in error.problems] if isinstance(error, Rejected) else []
    said = types.ErrorAnswer(types.ErrorObject(**error_object(error)), problems)  # type: ignore[arg-type]
    body = msgspec.json.encode(said)
    return HTTPResponse(body, error.status, error_headers(error), content_type="application/json")


class AdminSocket:
    """The open socket at `path`; only this user can connect. `close` must be awaited in the end."""

    def __init__(self, admin: Admin, document: bytes, path: Path) -> None:
        self._app = build_admin(admin, document)
        self._path = path
        self._server: Any = None

    async def start(self) -> None:
        """Accept connections from now on. The holder of the state directory is alone here: what lies at the path
        was left behind.
        """
        self._path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(self._path))
        os.chmod(self._path, 0o600)
        self._server = await self._app.create_server(
            sock=sock, protocol=HttpProtocol, backlog=BACKLOG, return_asyncio_server=True,
            asyncio_server_kwargs={"start_serving": False},
        )  # fmt: skip
        await self._server.startup()
        await self._server.start_serving()

    async def close(self) -> None:
        """Close every connection, streams of events among them."""
        if self._server is None:
            return
        self._server.server.close()
        with suppress(OSError):
            self._path.unlink()
        for connection in list(self._server.connections):
            if not connection.close_if_idle():
                connection.abort()
