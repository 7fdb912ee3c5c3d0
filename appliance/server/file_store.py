"""The files clients sent and batches wrote: each a content and a record beside it, in one directory."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from appliance import log
from appliance.errors import UnknownFile
from appliance.protocols.files import File

_RECORD = ".json"
_PART = ".part"


class FileStore:
    """All files of `directory`, which is read when this is made (blocking). A file is there once its record is."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files = {file.id: file for file in self._read()}

    def get(self, id: str, key: str | None) -> File:
        """The file of this id, for the holder of a key; who needs none is on this machine. Raises UnknownFile."""
        file = self._files.get(id)
        if file is None or key not in (None, file.key) or self._outlived(file):
            raise UnknownFile(f"there is no file {id[:64]!r}", param="file_id")
        return file

    def all(self, key: str | None) -> list[File]:
        """Those of a key's holder, oldest first."""
        mine = (file for file in list(self._files.values()) if key in (None, file.key))
        return sorted((f for f in mine if not self._outlived(f)), key=lambda file: (file.created_at, file.id))

    def path(self, id: str) -> Path:
        """Where the content of a file is, or will be written."""
        return self._directory / id

    def part(self, id: str) -> Path:
        """Where a content is written that may never become whole; what is left there is removed at the next start."""
        return self._directory / f"{id}{_PART}"

    def add(self, file: File) -> None:
        """Its content is complete. Blocking."""
        record = self._directory / f"{file.id}{_RECORD}"
        replace(record, msgspec.json.encode(file))
        self._files[file.id] = file

    def remove(self, id: str) -> None:
        """Forget a file, if it is known. Blocking."""
        self._files.pop(id, None)
        for path in (self._directory / f"{id}{_RECORD}", self.path(id)):
            path.unlink(missing_ok=True)

    def _outlived(self, file: File) -> bool:
        if file.expires_at is None or time.time() < file.expires_at:
            return False
        self.remove(file.id)
        return True

    def _read(self) -> Iterator[File]:
        for left in self._directory.glob(f"*{_PART}"):
            left.unlink(missing_ok=True)
        for record in self._directory.glob(f"*{_RECORD}"):
            try:
                yield msgspec.json.decode(record.read_bytes(), type=File)
            except (OSError, msgspec.MsgspecError) as error:
                log.get().error("files.unreadable", file=str(record), reason=str(error))


def replace(path: Path, content: bytes) -> None:
    """Write a file so that there is always the old or the new one. Blocking."""
    part = path.with_name(f"{path.name}.new")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
