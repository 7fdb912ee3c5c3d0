"""`/v1/files`: sent as forms, kept in the state directory, listed, given back, removed."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec
from sanic import HTTPResponse, Request

from appliance.errors import BadRequest, BodyTooLarge, InUse, Unavailable
from appliance.protocols import files
from appliance.protocols.files import MAX_FILE_BYTES, File
from appliance.protocols.multipart import Head, Multipart, boundary_of
from appliance.protocols.paging import page
from appliance.server.body import parts, query
from appliance.server.caller import key_name
from appliance.server.context import Context
from appliance.server.edge import json_response

CHUNK = 1 << 20
MAX_FIELD = 1024


async def upload(request: Request, context: Context) -> HTTPResponse:
    """`POST /v1/files`: keep a file for a batch."""
    if context.draining:
        raise Unavailable("the server is shutting down", retry_after=5)
    id = f"file-{uuid4().hex}"
    part = context.files.part(id)
    try:
        form = await _receive(request, context, part)
        asked = files.upload(form.fields)
        if form.filename is None:
            raise BadRequest("`file` is required", param="file")
        now = int(time.time())
        expires = None if asked.expires_after is None else now + asked.expires_after
        file = File(id, form.bytes, now, form.filename, asked.purpose, expires, key_name(request))
        await asyncio.to_thread(_kept, context, part, file)
    finally:
        part.unlink(missing_ok=True)
    return _json(files.described(file))


async def index(request: Request, context: Context) -> HTTPResponse:
    """`GET /v1/files`: the files there are, the newest first unless `order=asc`."""
    asked = query(request)
    kept = (
        file for file in context.files.all(key_name(request)) if asked.get("purpose", file.purpose) == file.purpose
    )
    return _json(page([files.described(file) for file in kept], asked, most=10_000, usual=10_000))


async def show(request: Request, context: Context, id: str) -> HTTPResponse:
    """`GET /v1/files/{id}`: what is known of a file."""
    return _json(files.described(context.files.get(id, key_name(request))))


async def content(request: Request, context: Context, id: str) -> HTTPResponse | None:
    """`GET /v1/files/{id}/content`: the bytes of a file."""
    file = context.files.get(id, key_name(request))
    headers = {"content-length": str(file.bytes)}
    if request.method == "HEAD":
        return HTTPResponse(headers=headers, content_type="application/octet-stream")
    # Once it is open, a file that is removed meanwhile is still read to its end.
    opened = await asyncio.to_thread(context.files.path(id).open, "rb")
    try:
        response = await request.respond(headers=headers, content_type="application/octet-stream")
        while chunk := await asyncio.to_thread(opened.read, CHUNK):
            await response.send(chunk)
        await response.eof()
    finally:
        opened.close()
    return None


async def delete(request: Request, context: Context, id: str) -> HTTPResponse:
    """`DELETE /v1/files/{id}`: remove a file. One that a batch still needs stays."""
    context.files.get(id, key_name(request))
    if users := context.batches.users(id):
        raise InUse(f"{users[0].id} still needs this file; cancel it first")
    await asyncio.to_thread(context.files.remove, id)
    return _json({"id": id, "object": "file", "deleted": True})


class _Form:
    """A form while it arrives; the content of `file` goes to `out`."""

    def __init__(self, out: BinaryIO) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.bytes = 0
        self._out = out
        self._at: Head | None = None

    def take(self, piece: Head | bytes) -> None:
        """The next piece of the form; blocking. Raises BadRequest, BodyTooLarge."""
        match piece:
            case Head(name="file") if self.filename is not None:
                raise BadRequest("`file` may be sent once", param="file")
            case Head(name=name) as head:
                self._at = head
                if name == "file":
                    self.filename = Path(head.filename or "upload").name[:255] or "upload"
                else:
                    self.fields[name[:64]] = ""
            case bytes() if self._at is not None and self._at.name == "file":
                self.bytes += len(piece)
                if self.bytes > MAX_FILE_BYTES:
                    raise BodyTooLarge(f"the file is larger than {MAX_FILE_BYTES} bytes")
                self._out.write(piece)
            case bytes() if self._at is not None:
                name = self._at.name[:64]
                self.fields[name] += piece.decode("utf-8", "replace")
                if len(self.fields[name]) > MAX_FIELD or len(self.fields) > 16:
                    raise BadRequest(f"`{name}` is too large", param=name)


async def _receive(request: Request, context: Context, part: Path) -> _Form:
    """The form of a body, its file written to `part`."""
    reader = Multipart(boundary_of(request.headers.getone("content-type", "")))
    settings = context.running.deployment.server
    with await asyncio.to_thread(part.open, "xb") as out:
        part.chmod(0o600)
        form = _Form(out)
        body = parts(request, MAX_FILE_BYTES + CHUNK, settings.idle_timeout, "the largest a file may be")
        async for data in _gathered(body):
            await asyncio.to_thread(_take, reader, form, data)
        reader.close()
    return form


def _take(reader: Multipart, form: _Form, data: bytes) -> None:
    for piece in reader.feed(data):
        form.take(piece)


async def _gathered(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in fewer pieces: each costs a turn of a thread."""
    waiting = bytearray()
    async for data in body:
        waiting += data
        if len(waiting) >= CHUNK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


def _kept(context: Context, part: Path, file: File) -> None:
    part.replace(context.files.path(file.id))
    context.files.add(file)


def _json(value: object) -> HTTPResponse:
    return json_response(msgspec.json.encode(value))
