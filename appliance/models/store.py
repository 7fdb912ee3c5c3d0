"""Where the files of a model are on this machine: a look at the disk, never at the network.

The server calls this, so nothing slow is imported: the hub's cache is read by its documented layout.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from appliance.config.deployment import Source
from appliance.config.operations import Storage

_INDEX = "model.safetensors.index.json"
_CONVERTER = 1
"""Part of every converted directory's key: raise it when a conversion gives other files than before."""


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """`$APPLIANCE_HOME/models`, else `~/.appliance/models`."""
    home = environ.get("APPLIANCE_HOME")
    return (Path(home) if home else Path.home() / ".appliance") / "models"


def hub_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Where huggingface_hub keeps its snapshots, by its own environment variables."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if value := environ.get(variable):
            return Path(value).expanduser() / below
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "huggingface" / "hub"


@dataclass(frozen=True, slots=True)
class Store:
    """The directory `root` holds converted models, `hub` is huggingface_hub's cache."""

    root: Path = field(default_factory=default_root)
    hub: Path = field(default_factory=hub_cache)

    def within(self, storage: Storage) -> Self:
        """The store of a deployment: all of it is below `storage.models` where the file names that directory."""
        if not storage.named:
            return self
        root = Path(storage.models)
        return replace(self, root=root, hub=root / "hub")

    def locate(self, source: Source) -> Path | None:
        """What an engine loads: a model directory or a script. None where something has to be fetched first."""
        return _LOCATE[source.kind](self, source)

    def converted(self, source: Source) -> Path | None:
        """The directory the converted model of a GGUF or package has or will have; None where the file is missing."""
        if source.kind == "pypi":
            return self.root / "pypi" / _key(source.ref.partition("#")[0], source.ref)
        try:
            stat = os.stat(source.ref)
        except OSError:
            return None
        stem = Path(source.ref).stem
        return self.root / "gguf" / _key(stem, f"{Path(source.ref).resolve()}|{stat.st_size}|{stat.st_mtime_ns}")

    def unfinished(self, source: Source) -> Path:
        """A file that is there while a download of this repository is under way or was broken off."""
        return self.root / "unfinished" / _key(source.ref, f"{source.ref}@{source.revision}")

    @property
    def notes(self) -> Path:
        """The directory with a note of each model that was fetched."""
        return self.root / "fetched"

    def note(self, source: Source) -> Path:
        """The note of one."""
        return self.notes / f"{_key(source.ref, f'{source.kind}|{source.ref}@{source.revision}')}.json"

    def directory(self, source: Source) -> Path | None:
        """The directory that is all of a fetched source, with other revisions of it; None for what is not fetched."""
        match source.kind:
            case "hf":
                return self.hub / f"models--{source.ref.replace('/', '--')}"
            case "gguf" | "pypi":
                return self.converted(source)
            case _:
                return None

    def lock(self, source: Source) -> Path:
        """The file that whoever fetches this source holds."""
        return self.root / "locks" / _key(source.kind, f"{source.ref}@{source.revision}")


def _directory(store: Store, source: Source) -> Path | None:
    path = Path(source.ref)
    return path if complete(path) else None


def _converted(store: Store, source: Source) -> Path | None:
    path = store.converted(source)
    return path if path is not None and path.is_dir() else None


def _script(store: Store, source: Source) -> Path | None:
    path = Path(source.ref)
    return path if path.is_file() else None


def _snapshot(store: Store, source: Source) -> Path | None:
    repository = store.hub / f"models--{source.ref.replace('/', '--')}"
    try:
        commit = (repository / "refs" / source.revision).read_text().strip()
    except OSError:
        commit = source.revision
    path = repository / "snapshots" / commit
    return path if complete(path) and not store.unfinished(source).exists() else None


def complete(directory: Path) -> bool:
    """Whether a model directory holds its configuration and every weight file its index names."""
    if not (directory / "config.json").is_file():
        return False
    if not (directory / _INDEX).is_file():
        return any(directory.glob("*.safetensors"))
    named = shards(directory)
    return named is not None and all((directory / shard).is_file() for shard in named)


def shards(directory: Path) -> set[str] | None:
    """The weight files that a model directory's index names; None for one that means nothing. Raises OSError."""
    try:
        named = set(json.loads((directory / _INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return named if all(isinstance(name, str) for name in named) else None


def _key(name: str, content: str) -> str:
    readable = "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip(".")[-80:]
    return f"{readable}-{hashlib.sha256(f'{_CONVERTER}|{content}'.encode()).hexdigest()[:16]}"


_LOCATE: Mapping[str, Callable[[Store, Source], Path | None]] = {
    "path": _directory,
    "gguf": _converted,
    "pypi": _converted,
    "hf": _snapshot,
    "fake": _script,
}
