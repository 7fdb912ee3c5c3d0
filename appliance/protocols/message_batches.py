"""Anthropic's message batches: what a body asks for, and what is said of one and of its results.

They are kept and run as OpenAI's are: the requests become the lines of an input, with `/v1/messages` as endpoint.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from appliance.errors import BadRequest
from appliance.protocols.batch_lines import CANCELLED, MAX_LINES
from appliance.protocols.batches import MESSAGES_PREFIX, Batch, seconds_of
from appliance.protocols.fields import Reader, read_fields, typed
from appliance.protocols.paging import limit

ENDPOINT = "/v1/messages"
WINDOW = "24h"
"""Anthropic's own."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_encode = msgspec.json.Encoder().encode


class Ask(msgspec.Struct):
    """One request of a batch."""

    custom_id: str
    params: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]


def _requests(name: str, asks: list[Ask]) -> list[Ask]:
    if not 0 < len(asks) <= MAX_LINES:
        raise BadRequest(f"`{name}` must hold 1 to {MAX_LINES} requests", param=name)
    seen: set[str] = set()
    for at, ask in enumerate(asks):
        id, params = f"{name}[{at}].custom_id", f"{name}[{at}].params"
        if not _ID.fullmatch(ask.custom_id):
            raise BadRequest(f"`{id}` must be 1 to 64 letters, digits, _ or -", param=id)
        if ask.custom_id in seen:
            raise BadRequest(f"`{id}`: {ask.custom_id!r} is used twice", param=id)
        if not bytes(ask.params).startswith(b"{"):
            raise BadRequest(f"`{params}` must be an object", param=params)
        seen.add(ask.custom_id)
    return asks


FIELDS: dict[str, Reader] = {
    "requests": typed(list[Ask], "a list of requests, each with custom_id and params", _requests),
}
"""The fields of `POST /v1/messages/batches`."""

REQUIRED = ("requests",)


def asked(body: bytes, id: str, input_file: str, key: str | None, now: int) -> tuple[Batch, bytes]:
    """The batch a body asks for, and its requests as the lines of an input. Raises BadRequest."""
    given, unknown = read_fields(body, FIELDS, REQUIRED)
    if unknown:
        raise BadRequest(f"unknown field `{unknown[0][:64]}`", param=unknown[0][:64])
    asks: list[Ask] = given["requests"]
    batch = Batch(
        id=f"{MESSAGES_PREFIX}{id}",
        endpoint=ENDPOINT,
        input_file=input_file,
        window=WINDOW,
        expires_at=now + seconds_of(WINDOW),
        times={"validating": now},
        key=key,
        total=len(asks),
    )
    return batch, b"".join(map(_line, asks))


def _line(ask: Ask) -> bytes:
    # A line's end belongs to the file: what was sent may be written over several.
    body = msgspec.Raw(msgspec.json.format(bytes(ask.params), indent=-1))
    return _encode({"custom_id": ask.custom_id, "method": "POST", "url": ENDPOINT, "body": body}) + b"\n"


# ---- what is said
def described(batch: Batch, results_url: str) -> dict[str, Any]:
    """The batch object. Requests are counted as `processing` until all of it has ended, as Anthropic's are."""
    ended = batch.ended
    canceling = "cancelling" in batch.times
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else "canceling" if canceling else "in_progress",
        "request_counts": _counts(batch),
        "created_at": _time(batch, "validating"),
        "expires_at": _written(batch.expires_at),
        "ended_at": _time(batch, batch.status) if ended else None,
        "cancel_initiated_at": _time(batch, "cancelling"),
        "archived_at": None,
        "results_url": results_url if ended else None,
    }


def _counts(batch: Batch) -> dict[str, int]:
    names = ("processing", "succeeded", "errored", "canceled", "expired")
    if not batch.ended:
        return {**dict.fromkeys(names, 0), "processing": batch.total}
    cancelled = batch.status == "cancelled"
    return {
        "processing": 0,
        "succeeded": batch.completed,
        "errored": batch.total - batch.completed - batch.unrun,
        "canceled": batch.unrun if cancelled else 0,
        "expired": 0 if cancelled else batch.unrun,
    }


def _time(batch: Batch, state: str) -> str | None:
    return None if (seconds := batch.times.get(state)) is None else _written(seconds)


def _written(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Error(msgspec.Struct):
    code: str


class _Kept(msgspec.Struct):
    custom_id: str
    response: _Response | None
    error: _Error | None


_KEPT = msgspec.json.Decoder(_Kept)


def result(line: bytes) -> bytes:
    """A line of the results, of one as it is kept."""
    kept = _KEPT.decode(line)
    return _encode({"custom_id": kept.custom_id, "result": _result(kept)}) + b"\n"


def _result(kept: _Kept) -> dict[str, Any]:
    match kept:
        case _Kept(response=_Response(status_code=200, body=body)):
            return {"type": "succeeded", "message": body}
        case _Kept(response=_Response(body=body)):
            return {"type": "errored", "error": body}
        case _Kept(error=_Error(code=code)) if code == CANCELLED:
            return {"type": "canceled"}
        case _:
            return {"type": "expired"}


def page(batches: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """The page asked for of batches that stand newest first. Raises BadRequest."""
    most = limit(query.get("limit"), 1000, 20)
    ids = [batch["id"] for batch in batches]
    if (before := query.get("before_id")) in ids:
        left = batches[: ids.index(before)]
        shown = left[-most:]
    else:
        after = query.get("after_id")
        left = batches[ids.index(after) + 1 :] if after in ids else batches
        shown = left[:most]
    return {
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(left) > len(shown),
    }
