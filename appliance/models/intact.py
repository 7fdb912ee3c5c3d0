"""Whether a model's files are what the hub sent, by what lies beside them: nothing is asked, nothing fetched.

The hub's cache names each file by its digest (https://huggingface.co/docs/huggingface_hub/guides/manage-cache); a
directory it was fetched into has one in `.cache/huggingface/download/*.metadata`. Large files have their SHA-256,
others that of a git object. The header of a safetensors file says how long the file is.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.models.safetensors import header
from appliance.models.store import shards

_SHA256, _GIT = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_METADATA = Path(".cache/huggingface/download")


@dataclass(frozen=True, slots=True)
class Looked:
    """One file; `compared`: its digest was known. `problem` is "" where all is well."""

    name: str
    compared: bool
    problem: str


def looked(directory: Path) -> Iterator[Looked]:
    """Every file of a model directory and every weight file that its index names. Reads all of them."""
    files = {path for path in directory.iterdir() if path.is_symlink() or path.is_file()}
    for path in sorted(files | {directory / Path(shard).name for shard in _indexed(directory)}):
        digest = _digest_of(directory, path)
        yield Looked(path.name, digest is not None, _problem(path, digest))


def _indexed(directory: Path) -> set[str]:
    try:
        return shards(directory) or set()
    except OSError:
        return set()


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
    try:
        begin, tensors = header(path) or (0, {})
        return begin + int(max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return 0


def _computed(path: Path, digest: str) -> str:
    blob = b"blob %d\0" % path.stat().st_size
    new = hashlib.sha256 if _SHA256.fullmatch(digest) else lambda: hashlib.sha1(blob, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, new).hexdigest()
