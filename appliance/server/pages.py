"""The paths that the deploy file chooses: where the dashboard and the metrics are, as of the next request."""

from collections.abc import Awaitable, Callable

from sanic import HTTPResponse, Request
from sanic.exceptions import MethodNotAllowed

from appliance.config.operations import Observability
from appliance.control.keys import permits
from appliance.errors import InvalidKey, NotAllowed
from appliance.server import overview
from appliance.server.context import Context
from appliance.server.dashboard import page
from appliance.server.edge import answer_error
from appliance.server.openapi import POLICY
from appliance.server.origins import check_page
from appliance.server.routes import metrics

Handler = Callable[..., Awaitable[HTTPResponse | None]]

_METHODS = ("GET", "HEAD")
_HEADERS = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "no-referrer"}


async def dashboard(request: Request, context: Context) -> HTTPResponse:
    """`GET /ui`: the state of everything, for people; `observability.dashboard.path` says where."""
    key = context.door.key_of(request, basic=True)
    if not all(permits(key, name) for name in context.running.deployment.models):
        raise NotAllowed("the dashboard shows every model, and this key may not use all of them")
    return HTTPResponse(page(overview.status(context)), headers=_HEADERS, content_type="text/html; charset=utf-8")


async def metrics_page(request: Request, context: Context) -> HTTPResponse:
    """`GET /metrics`: needs no key, and so is for no page of others, nor for a name that somebody pointed here."""
    try:
        context.door.key_of(request)
    except InvalidKey:
        server = context.running.deployment.server
        check_page(request.headers, server.trusted_hosts, server.cors)
    return await metrics(request, context)


DEFAULTS: dict[str, Handler] = {"/metrics": metrics_page, "/ui": dashboard}
"""Where they are unless the file says otherwise."""


async def elsewhere(context: Context, request: Request, raised: Exception) -> HTTPResponse | None:
    """Answer a path that is in no table of routes: one the deploy file chose, or nothing is there."""
    handler = _at(context.running.deployment.observability, request.path)
    if handler is None:
        return answer_error(request, raised)
    try:
        if request.method not in _METHODS:
            raise MethodNotAllowed("", request.method, _METHODS)
        return await handler(request, context)
    except Exception as error:  # noqa: BLE001 - the request edge of these paths
        answer = answer_error(request, error)
        if handler is dashboard and isinstance(error, InvalidKey):
            # What makes a browser ask for the key; only here, so that it sends it nowhere else by itself.
            answer.headers["www-authenticate"] = 'Basic realm="appliance", charset="UTF-8"'
        return answer


def _at(chosen: Observability, path: str) -> Handler | None:
    return {chosen.metrics_path: metrics_page, chosen.dashboard_path: dashboard}.get(path.rstrip("/"))
