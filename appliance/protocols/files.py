"""OpenAI's files: what an upload may say, and what is said of a file."""

from collections.abc import Mapping
from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported

MAX_FILE_BYTES = 512 << 20
"""OpenAI's own limit."""

PURPOSES = ("batch",)
_ELSEWHERE = ("assistants", "evals", "fine-tune", "user_data", "vision")
_SHORTEST, _LONGEST = 3600, 2_592_000
_FIELDS = frozenset({"purpose", "expires_after[anchor]", "expires_after[seconds]"})


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kept file. `key` is the name of the key it came with; times in Unix seconds."""

    id: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    expires_at: int | None = None
    key: str | None = None


class Upload(msgspec.Struct, frozen=True):
    """The plain fields of an upload; `expires_after` in seconds."""

    purpose: str
    expires_after: int | None


def upload(fields: Mapping[str, str]) -> Upload:
    """The fields of the form beside `file`. Raises BadRequest naming the one at fault, Unsupported."""
    for name in fields:
        if name not in _FIELDS:
            raise BadRequest(
                f"unknown field `{name[:64]}`: send `file`, `purpose` and `expires_after`", param=name[:64]
            )
    purpose = fields.get("purpose")
    if purpose is None:
        raise BadRequest("`purpose` is required", param="purpose")
    if purpose in _ELSEWHERE:
        raise Unsupported("`purpose` must be 'batch': this server keeps files for batches only", param="purpose")
    if purpose not in PURPOSES:
        raise BadRequest(f"`purpose` must be 'batch', got {purpose[:40]!r}", param="purpose")
    if fields.get("expires_after[anchor]", "created_at") != "created_at":
        raise BadRequest("`expires_after[anchor]` must be 'created_at'", param="expires_after[anchor]")
    seconds = fields.get("expires_after[seconds]")
    return Upload(purpose, None if seconds is None else expiry("expires_after[seconds]", seconds))


def expiry(name: str, value: str | int) -> int:
    """Seconds after which a file goes. Raises BadRequest."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not _SHORTEST <= int(text) <= _LONGEST:
        raise BadRequest(f"`{name}` must be an integer from {_SHORTEST} to {_LONGEST}", param=name)
    return int(text)


def described(file: File) -> dict[str, Any]:
    """The file object."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }
