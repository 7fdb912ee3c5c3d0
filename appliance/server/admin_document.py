"""The admin socket's OpenAPI document, made from the table of routes and the types of bodies."""

import inspect
from typing import Any

import msgspec

from appliance.server.admin import BASE, DOCUMENT, ROUTES, Route
from appliance.server.admin_types import ErrorAnswer

_QUERY: dict[str, dict[str, Any]] = {
    "wait": {"schema": {"enum": ["0", "1"]}, "description": "Answer when the generation has converged."},
    "timeout": {"schema": {"type": "number", "minimum": 0}, "description": "The most seconds to wait; 300."},
    "for": {"schema": {"type": "number", "minimum": 0}, "description": "Seconds; without it for good, 0: no more."},
    "now": {"schema": {"enum": ["0", "1"]}, "description": "End the requests that use it."},
    "dry_run": {"schema": {"enum": ["1"]}, "description": "Only say what would change; anything else is refused."},
}


def document(version: str) -> bytes:
    """The document as JSON."""
    types = [kind for route in ROUTES for kind in (route.answer, route.body) if kind is not None]
    _, components = msgspec.json.schema_components([*types, ErrorAnswer], ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(f"{BASE}{route.path}", {})[route.method.lower()] = _operation(route)
    described = {"200": {"description": "This document.", "content": _json({"type": "object"})}}
    paths[DOCUMENT] = {"get": {"operationId": "openapi", "responses": described}}
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "appliance admin", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }
    return msgspec.json.encode(whole)


def _operation(route: Route) -> dict[str, Any]:
    text = inspect.getdoc(route.handler) or ""
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "description": " ".join(text.split()),
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"content": _json(_ref(route.body))}
    if route.path == "/config" and route.method == "POST":
        operation["requestBody"] = {"content": {"application/yaml": {"schema": {"type": "string"}}}}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    parts = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    found = [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    found += [{"name": name, "in": "query", **_QUERY[name]} for name in route.query]
    if route.guarded:
        text = "The generation this is meant for, in quotes; 412 where another one runs."
        found.append({"name": "If-Match", "in": "header", "schema": {"type": "string"}, "description": text})
    return found


def _responses(route: Route) -> dict[str, Any]:
    content = _json(_ref(route.answer)) if route.answer else {"application/x-ndjson": {}, "text/event-stream": {}}
    error = {"description": "Refused.", "content": _json(_ref(ErrorAnswer))}
    good = {"description": "Done.", "content": content}
    return {str(route.success): good, **{str(status): error for status in (400, *route.statuses)}}


def _ref(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
