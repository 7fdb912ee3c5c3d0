"""The accepted generations on disk: what was read, what it resolved to, and when.

One file per generation, complete or not there: written aside, flushed, renamed. Its first line is the digest of the
rest, so that one a failing disk left in part is told apart and passed over.
"""

import dataclasses
import hashlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from appliance.config.deployment import Deployment

KEPT = 20
_NAME = re.compile(r"(\d{8})\.generation", re.ASCII)


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """`time` is Unix seconds, `cause` a word or two for people, `changes` the lines of the plan that led here.

    `sources` are the files by absolute path, without secret ones; `digest` is that of all of them.
    """

    number: int
    time: float
    cause: str
    digest: str
    sources: dict[str, str]
    resolved: dict[str, Any]
    changes: tuple[str, ...] = ()

    @property
    def held(self) -> dict[str, bytes]:
        """The sources as bytes, for reading them again."""
        return {path: text.encode() for path, text in self.sources.items()}


def generation(
    number: int, deployment: Deployment, *, time: float, cause: str, changes: tuple[str, ...] = ()
) -> Generation:
    """What is kept of a deployment."""
    return Generation(
        number=number,
        time=time,
        cause=cause,
        digest=deployment.digest,
        sources={path: data.decode() for path, data in deployment.sources.items()},
        resolved=plain(deployment),
        changes=changes,
    )


def plain(value: Any) -> Any:
    """Values as JSON has them. Only what is known to be harmless is shown: of anything else, such as a secret, its
    type alone.
    """
    match value:
        case None | bool() | int() | Enum():
            return value
        case str() if type(value) is str:
            return value
        case float():
            return value if math.isfinite(value) else "never"
        case tuple() | list():
            return [plain(item) for item in value]
        case frozenset() | set():
            return sorted(str(plain(item)) for item in value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare and f.repr}
    return f"<{type(value).__name__}>"


class Journal:
    """The last generations in `directory`. All methods block; only the holder of the state directory's lock may call
    `clean` and `write`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def clean(self) -> None:
        """Remove what a process that was killed left unfinished, and what cannot be read."""
        for path in self._directory.iterdir():
            if not _NAME.fullmatch(path.name) or _read(path) is None:
                path.unlink(missing_ok=True)

    def write(self, generation: Generation) -> None:
        """Keep it; once this returns it survives the loss of power. Only the last 20 stay. Raises OSError."""
        body = msgspec.json.encode(generation)
        temporary = self._directory / f".{generation.number:08d}.{os.getpid()}"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path(generation.number))
        self._flush()
        for path in self._files()[KEPT:]:
            path.unlink(missing_ok=True)

    def newest(self) -> Generation | None:
        return next(self._generations(), None)

    def get(self, number: int) -> Generation | None:
        """None where it was never there or is kept no longer."""
        return _read(self._path(number))

    def history(self) -> list[Generation]:
        """Newest first."""
        return list(self._generations())

    def _generations(self) -> Iterator[Generation]:
        return (found for path in self._files() if (found := _read(path)) is not None)

    def _files(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return sorted((p for p in self._directory.iterdir() if _NAME.fullmatch(p.name)), reverse=True)
        return []

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08d}.generation"

    def _flush(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _read(path: Path) -> Generation | None:
    try:
        digest, _, body = path.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        return msgspec.json.decode(body, type=Generation)
    except (OSError, msgspec.DecodeError):
        return None
