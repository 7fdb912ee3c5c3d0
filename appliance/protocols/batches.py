"""OpenAI's batches: what a body asks for, which state follows on which, and what is said of one."""

import re
from typing import Any, Literal

import msgspec

from appliance.errors import BadRequest
from appliance.protocols.fields import Reader, read_fields, typed
from appliance.protocols.files import expiry
from appliance.protocols.sampling import Name

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")

PREFIX, MESSAGES_PREFIX = "batch_", "msgbatch_"
"""How the ids of OpenAI's batches begin, and those of Anthropic's."""

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]
ENDED = frozenset({"failed", "completed", "expired", "cancelled"})

_WINDOW = re.compile(r"([1-9]\d{0,4})([mhd])")
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_LONGEST_WINDOW = 90 * 86400


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with the input; `line` counts from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch as it is kept. `key` is the name of the key it came with, `times` Unix seconds by the state that was
    entered then, `keep` how many seconds its results are kept; `unrun` of the `failed` lines it had no time for.
    """

    id: str
    endpoint: str
    input_file: str
    window: str
    expires_at: int
    status: Status = "validating"
    times: dict[str, int] = {}
    key: str | None = None
    metadata: dict[str, str] | None = None
    keep: int | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    unrun: int = 0
    output_file: str | None = None
    error_file: str | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def of_messages(self) -> bool:
        """Whether it is Anthropic's: its results are asked for by its id, and are no files of their own."""
        return self.id.startswith(MESSAGES_PREFIX)


class _KeepFor(msgspec.Struct):
    anchor: Literal["created_at"]
    seconds: int


def _endpoint(name: str, value: str) -> str:
    if value not in ENDPOINTS:
        raise BadRequest(f"`{name}` must be one of {', '.join(ENDPOINTS)}", param=name)
    return value


def _window(name: str, value: str) -> str:
    found = _WINDOW.fullmatch(value)
    if found is None or seconds_of(value) > _LONGEST_WINDOW:
        raise BadRequest(f"`{name}` must be a time such as 24h, 90m or 7d, at most 90d", param=name)
    return value


def _metadata(name: str, value: dict[str, str]) -> dict[str, str]:
    if len(value) > 16 or any(len(key) > 64 or len(text) > 512 for key, text in value.items()):
        raise BadRequest(f"`{name}` may hold 16 pairs of at most 64 and 512 characters", param=name)
    return value


FIELDS: dict[str, Reader] = {
    "input_file_id": typed(Name, "the id of a file"),
    "endpoint": typed(str, f"one of {', '.join(ENDPOINTS)}", _endpoint),
    "completion_window": typed(str, "a time such as 24h", _window),
    "metadata": typed(dict[str, str], "an object of strings", _metadata),
    "output_expires_after": typed(
        _KeepFor, "an object with an anchor and seconds", lambda name, keep: expiry(f"{name}.seconds", keep.seconds)
    ),
}
"""The fields of `POST /v1/batches`."""

REQUIRED = ("input_file_id", "endpoint", "completion_window")


def seconds_of(window: str) -> int:
    """The seconds of a checked completion window."""
    found = _WINDOW.fullmatch(window)
    assert found is not None
    return int(found[1]) * _UNITS[found[2]]


def asked(body: bytes, id: str, key: str | None, now: int) -> Batch:
    """The batch a body asks for, not yet validated. Raises BadRequest."""
    given, unknown = read_fields(body, FIELDS, REQUIRED)
    if unknown:
        raise BadRequest(f"unknown field `{unknown[0][:64]}`", param=unknown[0][:64])
    window = given["completion_window"]
    return Batch(
        id=id,
        endpoint=given["endpoint"],
        input_file=given["input_file_id"],
        window=window,
        expires_at=now + seconds_of(window),
        times={"validating": now},
        key=key,
        metadata=given.get("metadata"),
        keep=given.get("output_expires_after"),
    )


# ---- which state follows on which
def validated(batch: Batch, lines: int, problems: tuple[Problem, ...], now: int) -> Batch:
    """The input was read."""
    if batch.status != "validating":
        return batch
    if problems:
        return _entered(batch, "failed", now, problems=problems)
    return _entered(batch, "in_progress", now, total=lines)


def counted(batch: Batch, completed: int, failed: int, unrun: int = 0) -> Batch:
    """So many lines are done in all."""
    return msgspec.structs.replace(batch, completed=completed, failed=failed, unrun=unrun)


def cancelling(batch: Batch, now: int) -> Batch:
    """Somebody wants it to end. Raises BadRequest where it has."""
    if batch.ended or batch.status == "finalizing":
        raise BadRequest(f"the batch {batch.id} is {batch.status} already", param="batch_id")
    return batch if batch.status == "cancelling" else _entered(batch, "cancelling", now)


def finalizing(batch: Batch, now: int) -> Batch:
    """No line of it will run any more."""
    return _entered(batch, "finalizing", now) if batch.status == "in_progress" else batch


def ended(batch: Batch, now: int, output_file: str | None, error_file: str | None) -> Batch:
    """Its results are there."""
    files = {"output_file": output_file, "error_file": error_file}
    match batch.status:
        case "cancelling":
            return _entered(batch, "cancelled", now, **files)
        case "finalizing" if batch.times["finalizing"] >= batch.expires_at:
            return _entered(batch, "expired", now, **files)
        case _:
            return _entered(batch, "completed", now, **files)


def _entered(batch: Batch, status: Status, now: int, **more: Any) -> Batch:
    return msgspec.structs.replace(batch, status=status, times={**batch.times, status: now}, **more)


# ---- what is said
_TOLD = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


def described(batch: Batch) -> dict[str, Any]:
    """The batch object."""
    errors = {"object": "list", "data": [msgspec.to_builtins(problem) for problem in batch.problems]}
    entered = {f"{name}_at": batch.times.get(name) for name in _TOLD}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": errors if batch.problems else None,
        "input_file_id": batch.input_file,
        "completion_window": batch.window,
        "status": batch.status,
        "output_file_id": batch.output_file,
        "error_file_id": batch.error_file,
        "created_at": batch.times["validating"],
        "expires_at": batch.expires_at,
        **entered,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "metadata": batch.metadata,
    }
