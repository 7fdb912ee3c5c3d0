"""The lines of a batch: requests in its input, results in its output, one JSON object each."""

from collections.abc import Iterable
from typing import Any

import msgspec

from appliance.protocols.batches import Problem

MAX_LINES = 50_000
MAX_PROBLEMS = 100
MAX_ID = 512
EXPIRED, CANCELLED = "batch_expired", "batch_cancelled"
"""Why a request was not run."""
_WHY = {
    EXPIRED: "This request was not run before the completion window ended.",
    CANCELLED: "This request was not run before the batch was cancelled.",
}


class Line(msgspec.Struct, frozen=True):
    """A line of the input."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class Entry(msgspec.Struct, frozen=True):
    """A line that can be run: where it stands in the file, and the model it asks for."""

    custom_id: str
    start: int
    length: int
    model: str


class _Model(msgspec.Struct):
    model: Any = None


class _Done(msgspec.Struct):
    custom_id: str
    response: msgspec.Raw


_LINE = msgspec.json.Decoder(Line)
_MODEL = msgspec.json.Decoder(_Model)
_DONE = msgspec.json.Decoder(_Done)
_encode = msgspec.json.Encoder().encode


# ---- the input
def read_line(raw: bytes, endpoint: str, number: int | None = None) -> Line | Problem:
    """One line of a batch for `endpoint`, or what is wrong with it."""

    def wrong(code: str, message: str, param: str | None = None) -> Problem:
        return Problem(code, message, param, number)

    try:
        line = _LINE.decode(raw)
    except msgspec.ValidationError:
        return wrong(
            "missing_required_parameter", "a line is an object with the strings custom_id, method and url, and a body"
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return wrong("invalid_json_line", "this line is not a JSON object")
    if not 0 < len(line.custom_id) <= MAX_ID:
        return wrong("invalid_custom_id", f"`custom_id` must be 1 to {MAX_ID} characters long", "custom_id")
    if line.method != "POST":
        return wrong("invalid_method", "`method` must be POST", "method")
    if line.url != endpoint:
        return wrong("invalid_url", f"`url` must be the batch's endpoint, {endpoint}", "url")
    if not bytes(line.body).startswith(b"{"):
        return wrong("invalid_body", "`body` must be an object", "body")
    return line


def read_input(lines: Iterable[bytes], endpoint: str) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
    """The requests to run, those for one model together, and what is wrong: a batch with problems does not run."""
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    start = 0
    for number, raw in enumerate(lines, 1):
        at, start = start, start + len(raw)
        if raw.isspace():
            continue
        match read_line(raw, endpoint, number):
            case Problem() as problem:
                problems.append(problem)
            case Line(custom_id=id) if id in entries:
                problems.append(Problem("duplicate_custom_id", f"{id[:64]!r} is used twice", "custom_id", number))
            case Line(custom_id=id) as line:
                entries[id] = Entry(id, at, len(raw), _model(line.body))
        if len(entries) > MAX_LINES:
            problems.append(Problem("too_many_requests", f"a batch may hold {MAX_LINES} requests"))
        if len(problems) == MAX_PROBLEMS or len(entries) > MAX_LINES:
            break
    if not entries and not problems:
        problems.append(Problem("empty_file", "the input file holds no requests"))
    return _by_model(list(entries.values())), tuple(problems)


def _by_model(entries: list[Entry]) -> tuple[Entry, ...]:
    """Models in the order they are first asked for, so that each is loaded once."""
    order: dict[str, int] = {}
    for entry in entries:
        order.setdefault(entry.model, len(order))
    return tuple(sorted(entries, key=lambda entry: order[entry.model]))


def _model(body: msgspec.Raw) -> str:
    """The model's name; what is wrong with a body is said in its result."""
    try:
        model = _MODEL.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return model if isinstance(model, str) else ""


# ---- the output
def answered(id: str, custom_id: str, status: int, request: str, body: bytes) -> bytes:
    """A line of the output, or of the errors where the status says so; `body` is JSON."""
    response = {"status_code": status, "request_id": request, "body": msgspec.Raw(body)}
    return _encode({"id": id, "custom_id": custom_id, "response": response, "error": None}) + b"\n"


def not_run(id: str, custom_id: str, why: str = EXPIRED) -> bytes:
    """A line of the errors, for a request the batch had no time for."""
    error = {"code": why, "message": _WHY[why]}
    return _encode({"id": id, "custom_id": custom_id, "response": None, "error": error}) + b"\n"


def done(lines: Iterable[bytes]) -> tuple[dict[str, bool], int]:
    """The requests whose results stand in a file that may be cut off, with whether they were run, and how many of its
    bytes are whole lines.
    """
    ids: dict[str, bool] = {}
    whole = 0
    for line in lines:
        try:
            if not line.endswith(b"\n"):
                break
            found = _DONE.decode(line)
            ids[found.custom_id] = bytes(found.response) != b"null"
        except msgspec.MsgspecError:
            break
        whole += len(line)
    return ids, whole
