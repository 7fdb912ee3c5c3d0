"""How one prefix lies on disk: a directory with a manifest and a safetensors file, whole or not there at all.

    <path>/<key>/<name>/manifest.json    what it is: tokens, namespace, size and checksum
                        kv.safetensors   the arrays (format: github.com/huggingface/safetensors#format)

It is written beside its place and renamed into it, so that whoever finds it finds all of it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

VERSION = 2
MANIFEST, ARRAYS = "manifest.json", "kv.safetensors"
_TEMPORARY = ".writing-"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Tensor:
    """`dtype` as safetensors names it; `data` are its bytes in row order, of memory nobody writes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


@dataclass(frozen=True, slots=True)
class Frozen:
    """A snapshot as plain memory; `layout` is JSON and says how to make it from its tensors again."""

    tensors: Mapping[str, Tensor]
    layout: Any


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`key` names the weights and the form of keys and values it belongs to; `bytes` and `sha256` are the file's.
    It can be cut to `shortest` tokens.
    """

    version: int
    key: str
    namespace: str
    tokens: tuple[int, ...]
    shortest: int
    bytes: int
    sha256: str
    layout: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A prefix that is on disk, as the index of prefixes knows it."""

    folder: Path
    tokens: tuple[int, ...]
    namespace: str
    shortest: int
    nbytes: int
    layout: Any

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def arrays(self) -> Path:
        return self.folder / ARRAYS


class BrokenEntry(Exception):
    """What lies there is no whole entry of this key."""


_decode = msgspec.json.Decoder(Manifest).decode


def name_of(namespace: str, tokens: tuple[int, ...]) -> str:
    """A directory name no two prefixes share."""
    told = namespace.encode("utf-8", "surrogatepass") + b"\0" + b",".join(b"%d" % token for token in tokens)
    return hashlib.sha256(told).hexdigest()[:40]


def write(home: Path, namespace: str, tokens: tuple[int, ...], shortest: int, frozen: Frozen) -> Entry:
    """Put a prefix into `home`, the directory of its key. Raises OSError; then nothing is left of it."""
    name = name_of(namespace, tokens)
    folder = home / name
    beside = home / f"{_TEMPORARY}{os.getpid()}-{name}"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(mode=0o700)
        size, digest = _write_arrays(beside / ARRAYS, frozen.tensors)
        manifest = Manifest(VERSION, home.name, namespace, tokens, shortest, size, digest, frozen.layout)
        (beside / MANIFEST).write_bytes(msgspec.json.encode(manifest))
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return Entry(folder, tokens, namespace, shortest, size, frozen.layout)


def read(folder: Path) -> Entry:
    """What the manifest says, and whether the arrays are there in their size. Raises BrokenEntry."""
    try:
        manifest = _decode((folder / MANIFEST).read_bytes())
        size = (folder / ARRAYS).stat().st_size
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenEntry(f"its manifest cannot be read: {error}") from error
    if (manifest.version, manifest.key) != (VERSION, folder.parent.name):
        raise BrokenEntry(f"it is of version {manifest.version} and key {manifest.key}")
    if size != manifest.bytes:
        raise BrokenEntry(f"its arrays are {size} bytes, not {manifest.bytes}")
    return Entry(folder, manifest.tokens, manifest.namespace, manifest.shortest, size, manifest.layout)


def verify(folder: Path) -> None:
    """Compare every byte of the arrays with the checksum; they are in the system's page cache afterwards.

    Raises BrokenEntry.
    """
    try:
        manifest = _decode((folder / MANIFEST).read_bytes())
        with (folder / ARRAYS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenEntry(f"it cannot be read: {error}") from error
    if found != manifest.sha256:
        raise BrokenEntry("its checksum is wrong")


def remove(folder: Path) -> None:
    """Take an entry away; one that is gone already is as good. The manifest goes first: without it there is none."""
    with suppress(OSError):
        (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def touch(folder: Path) -> None:
    """Say that it was used now."""
    with suppress(OSError):
        os.utime(folder / MANIFEST)


def scan(home: Path, lost: Callable[[Path, str], None]) -> list[Entry]:
    """All whole entries of a key, least recently used first. What is none is removed, and `lost` told."""
    found: list[tuple[float, Entry]] = []
    for folder in _folders(home):
        if folder.name.startswith(_TEMPORARY):
            _remove_orphan(folder)
            continue
        try:
            found.append(((folder / MANIFEST).stat().st_mtime, read(folder)))
        except (BrokenEntry, OSError) as error:
            remove(folder)
            lost(folder, str(error))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class Kept:
    """What the byte cap knows of an entry."""

    folder: Path
    used: float
    bytes: int


def kept(root: Path) -> list[Kept]:
    """Every entry of every key under a directory."""
    found: list[Kept] = []
    for home in _folders(root):
        for folder in _folders(home):
            with suppress(OSError):
                used = (folder / MANIFEST).stat().st_mtime
                found.append(Kept(folder, used, sum(file.stat().st_size for file in folder.iterdir())))
    return found


def surplus(entries: list[Kept], cap: int, oldest: float) -> list[Path]:
    """Which to remove, so that the rest takes `cap` bytes at most and none was last used before `oldest`."""
    out: list[Path] = []
    left = sum(entry.bytes for entry in entries)
    for entry in sorted(entries, key=lambda entry: entry.used):
        if left > cap or entry.used < oldest:
            out.append(entry.folder)
            left -= entry.bytes
    return out


def _write_arrays(file: Path, tensors: Mapping[str, Tensor]) -> tuple[int, str]:
    """The size and the checksum of what was written."""
    header: dict[str, Any] = {}
    at = 0
    for name, tensor in tensors.items():
        end = at + tensor.data.nbytes
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    parts: list[bytes | memoryview] = [len(text).to_bytes(8, "little"), text]
    parts += [tensor.data for tensor in tensors.values()]
    digest, size = hashlib.sha256(), 0
    with file.open("wb") as out:
        for part in parts:
            whole = memoryview(part).cast("B") if part else memoryview(b"")
            for start in range(0, len(whole), _BLOCK):
                block = whole[start : start + _BLOCK]
                digest.update(block)
                out.write(block)
            size += len(whole)
    return size, digest.hexdigest()


def _folders(home: Path) -> list[Path]:
    try:
        return [entry for entry in home.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _remove_orphan(folder: Path) -> None:
    """Half an entry whose writer is gone."""
    pid = folder.name.removeprefix(_TEMPORARY).partition("-")[0]
    if pid.isdecimal() and int(pid) != os.getpid():
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            return  # somebody else's process
    else:
        shutil.rmtree(folder, ignore_errors=True)
