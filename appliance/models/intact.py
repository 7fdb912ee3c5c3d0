"""Whether a model's files are what the hub sent, by what lies beside them: nothing is asked, nothing fetched.

The hub's cache names each file by its digest (https://huggingface.co/docs/huggingface_hub/guides/manage-cache); a
directory it was fetched into has one in `.cache/huggingface/download/*.metadata`. Large files have their SHA-256,
others that of a git object. The header of a safetensors file says how long the file is.
"""

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHA256, _GIT = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_METADATA = Path(".cache/huggingface/download")
_PIECE = 2**20
_LONGEST_HEADER = 100 * 2**20
"""What the format allows."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One file; `compared`: its digest was known. `problem` is "" where all is well."""

    name: str
    compared: bool
    problem: str


def looked(directory: Path) -> Iterator[Looked]:
    """Every file of a model directory and every weight file that its index names. Reads all of them."""
    files = {path for path in directory.iterdir() if path.is_symlink() or path.is_file()}
    for path in sorted(files | set(_indexed(directory))):
        digest = _digest_of(directory, path)
        yield Looked(path.name, digest is not None, _problem(path, digest))


def _indexed(directory: Path) -> Iterator[Path]:
    try:
        index = json.loads((directory / "model.safetensors.index.json").read_text(encoding="utf-8"))
        yield from (directory / Path(shard).name for shard in set(index["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return


def _digest_of(directory: Path, path: Path) -> str | None:
    if path.is_symlink():
        found = path.readlink().name
    else:
        try:
            found = (directory / _METADATA / f"{path.name}.metadata").read_text().splitlines()[1].strip()
        except (OSError, ValueError, IndexError):
            return None
    return found if _SHA256.fullmatch(found) or _GIT.fullmatch(found) else None


def _problem(path: Path, digest: str | None) -> str:
    if not path.exists():
        return "is missing"
    try:
        if path.suffix == ".safetensors" and (wanted := _length(path)) != path.stat().st_size:
            return f"has {path.stat().st_size} bytes of {wanted}" if wanted else "is no safetensors file"
        return "is not what the hub sent" if digest and _computed(path, digest) != digest else ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _length(path: Path) -> int:
    """What its header says of its length; 0 for what is no header."""
    with path.open("rb") as file:
        first = file.read(8)
        size = struct.unpack("<Q", first)[0] if len(first) == 8 else _LONGEST_HEADER + 1
        if size > _LONGEST_HEADER:
            return 0
        try:
            header = json.loads(file.read(size))
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
            return 8 + int(size) + int(max(ends, default=0))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return 0


def _computed(path: Path, digest: str) -> str:
    if _SHA256.fullmatch(digest):
        found = hashlib.sha256()
    else:
        found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
