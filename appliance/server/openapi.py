"""The OpenAPI document of all routes, made from the tables that answer them, and where it is served."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec
from sanic import HTTPResponse, Request

from appliance.protocols import batches, files, message_batches
from appliance.protocols.fields import Reader
from appliance.server import ollama_routes
from appliance.server.adapters import ADAPTERS, Adapter
from appliance.server.context import Context
from appliance.server.counting import QUESTIONS, Question
from appliance.server.openapi_page import page


@dataclass(frozen=True, slots=True)
class Described:
    """An endpoint's body: its fields, with those it cannot do without."""

    text: str
    fields: Mapping[str, Reader]
    required: tuple[str, ...]


Handler = Callable[..., Awaitable[HTTPResponse | None]]
Routes = Mapping[str, Handler]

Row = Adapter | Question | Described
"""What is known of an endpoint that takes a body."""

DESCRIBED: dict[str, Described] = {
    "/v1/batches": Described(
        "Run the requests of an uploaded file, behind all others.", batches.FIELDS, batches.REQUIRED
    ),
    "/v1/messages/batches": Described(
        "Answer many requests, behind all others.", message_batches.FIELDS, message_batches.REQUIRED
    ),
    "/api/show": Described("What is known of one model.", ollama_routes.SHOW, ()),
}
"""Endpoints that read fields and are neither asked for an answer nor about a prompt."""

FORMS: dict[str, dict[str, Any]] = {
    "/v1/files": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "description": "The content."},
            "purpose": {"enum": list(files.PURPOSES), "description": "What it is for."},
            "expires_after[anchor]": {"enum": ["created_at"], "description": "When its time begins."},
            "expires_after[seconds]": {"type": "integer", "description": "How long it is kept."},
        },
        "required": ["file", "purpose"],
    },
}
"""Bodies that are forms."""

_PAGE = {"limit": {"type": "integer", "minimum": 1}, "after": {"type": "string"}, "order": {"enum": ["asc", "desc"]}}
QUERIES: dict[str, dict[str, Any]] = {
    "/v1/files": {**_PAGE, "purpose": {"type": "string"}},
    "/v1/batches": {name: _PAGE[name] for name in ("limit", "after")},
    "/v1/messages/batches": {"limit": _PAGE["limit"], "after_id": _PAGE["after"], "before_id": _PAGE["after"]},
    "/v1/responses/<id:str>": {"stream": {"type": "boolean"}, "starting_after": {"type": "integer", "minimum": 0}},
    "/v1/responses/<id:str>/input_items": _PAGE,
}
"""Parameters of GET, with their schemas."""

_PART = re.compile(r"<(\w+):\w+>")
_JSON = {"application/json": {"schema": {"type": "object"}}}
_ERROR = {"description": "Refused; the error is said in the protocol's own form.", "content": _JSON}
_PLAIN = {"/": "text/plain", "/metrics": "text/plain", "/docs": "text/html", "/ui": "text/html"}
"""Answers that are no JSON."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def descriptions(version: str, reads: Routes, writes: Routes, deletes: Routes) -> dict[str, Handler]:
    """The two routes that describe the others; the document is made when it is first asked for."""

    @cache
    def made() -> dict[str, Any]:
        return document(version, {**reads, **described}, writes, deletes)

    async def openapi(request: Request, context: Context) -> HTTPResponse:
        """`GET /openapi.json`: this document."""
        return HTTPResponse(msgspec.json.encode(made()), content_type="application/json")

    async def docs(request: Request, context: Context) -> HTTPResponse:
        """`GET /docs`: this document, to be read by people."""
        headers = {"content-security-policy": POLICY}
        return HTTPResponse(page(made()), headers=headers, content_type="text/html; charset=utf-8")

    described: dict[str, Handler] = {"/openapi.json": openapi, "/docs": docs}
    return described


def document(version: str, reads: Routes, writes: Routes, deletes: Routes) -> dict[str, Any]:
    """The document. Its schemas are those of the types that bodies are decoded with."""
    schemas = _Schemas(row.fields for row in (*ADAPTERS.values(), *QUESTIONS.values(), *DESCRIBED.values()))
    paths: dict[str, Any] = {}
    for method, routes in (("get", reads), ("post", writes), ("delete", deletes)):
        for path, handler in routes.items():
            row: Row | None = None
            if method == "post":
                row = ADAPTERS.get(path) or QUESTIONS.get(path) or DESCRIBED.get(path)
            operation = _described(path, handler) if row is None else _generating(row, schemas)
            if method == "post" and (form := FORMS.get(path)) is not None:
                operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
                operation["responses"]["400"] = _ERROR
            parts = [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
                     for part in _PART.findall(path)]  # fmt: skip
            asked = QUERIES.get(path, {}) if method == "get" else {}
            parts += [{"name": name, "in": "query", "schema": schema} for name, schema in asked.items()]
            whole = {"operationId": _id(method, path), **operation, **({"parameters": parts} if parts else {})}
            paths.setdefault(_PART.sub(r"{\1}", path), {})[method] = whole
    return {
        "openapi": "3.1.0",
        "info": {"title": "appliance", "version": version},
        "security": [{}, {"bearer": []}, {"x-api-key": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


class _Schemas:
    """The JSON schemas of all field types, each made once."""

    def __init__(self, tables: Any) -> None:
        readers = list({id(reader): reader for table in tables for reader in table.values()}.values())
        kinds = [reader.kind for reader in readers]
        made, self.components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
        self._of = {id(reader): schema for reader, schema in zip(readers, made, strict=True)}

    def body(self, fields: Mapping[str, Reader], required: tuple[str, ...]) -> dict[str, Any]:
        properties = {name: dict(self._field(reader)) for name, reader in fields.items()}
        return {"type": "object", "properties": properties, "required": list(required)}

    def _field(self, reader: Reader) -> Iterator[tuple[str, Any]]:
        match reader.use:
            case "honoured":
                yield from self._of[id(reader)].items()
                yield "description", reader.says
            case "ignored":
                yield "description", reader.says
            case "refused":
                yield "description", f"Refused with 400: {reader.says}."
                yield "deprecated", True


def _generating(row: Row, schemas: _Schemas) -> dict[str, Any]:
    body = {"application/json": {"schema": schemas.body(row.fields, row.required)}}
    streams = {row.content_type.partition(";")[0]: {}} if isinstance(row, Adapter) else {}
    return {
        "summary": row.text,
        "requestBody": {"required": True, "content": body},
        "responses": {
            "200": {"description": "The answer.", "content": {**_JSON, **streams}},
            **dict.fromkeys(("400", "404", "503"), _ERROR),
        },
    }


def _described(path: str, handler: Handler) -> dict[str, Any]:
    function = handler.func if isinstance(handler, partial) else handler
    text = " ".join((inspect.getdoc(function) or "").split())
    summary = text.rpartition("`: ")[2]
    content = {_PLAIN[path]: {}} if path in _PLAIN else _JSON
    errors = {"404": _ERROR} if "<" in path else {}
    return {
        "summary": summary[:1].upper() + summary[1:],
        "responses": {"200": {"description": "The answer.", "content": content}, **errors},
    }


def _id(method: str, path: str) -> str:
    return "_".join([method, *re.findall(r"\w+", _PART.sub(r"\1", path))])
