"""The models that were fetched: what they take, when each was last used, and which go where they take too much.

Each has a note in the store, written when it was fetched and touched when it is loaded. What lies in the hub's cache
without a note was put there by other programs: it is neither counted nor removed.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.config.deployment import Source
from appliance.config.sources import in_full, parse
from appliance.models.store import Store


@dataclass(frozen=True, slots=True)
class Fetched:
    """One directory, which several sources may share; `used` is Unix seconds."""

    directory: Path
    sources: tuple[Source, ...]
    bytes: int
    used: float

    @property
    def name(self) -> str:
        return ", ".join(in_full(source) for source in self.sources)


def note(source: Source, store: Store) -> None:
    """It was fetched just now; nothing for what cannot be fetched."""
    if (directory := store.directory(source)) is not None:
        path = store.note(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"source": in_full(source), "directory": str(directory)}))


def touch(source: Source, store: Store) -> None:
    """It is used now."""
    with suppress(OSError):
        os.utime(store.note(source))


def fetched(store: Store) -> list[Fetched]:
    """All that are here, the one used last first. Looks at every file of theirs."""
    found: dict[Path, list[tuple[Source, float]]] = {}
    for source, directory, used in _notes(store):
        found.setdefault(directory, []).append((source, used))
    models = [
        Fetched(directory, tuple(source for source, _ in notes), _bytes(directory), max(used for _, used in notes))
        for directory, notes in found.items()
    ]
    return sorted(models, key=lambda model: model.used, reverse=True)


def too_much(found: Iterable[Fetched], limit: int, needed: Collection[Path]) -> list[Fetched]:
    """Which have to go so that the others take `limit` bytes at most: those used least recently first, none that is
    needed.
    """
    models = sorted(found, key=lambda model: model.used)
    size, go = sum(model.bytes for model in models), []
    for model in models:
        if size > limit and model.directory not in needed:
            go.append(model)
            size -= model.bytes
    return go


def trim(store: Store, limit: int, needed: Iterable[Source]) -> list[Fetched]:
    """Remove what is too much; what was removed. One that is being fetched stays."""
    kept = {directory for source in needed if (directory := store.directory(source)) is not None}
    return [model for model in too_much(fetched(store), limit, kept) if remove(model, store)]


def remove(model: Fetched, store: Store) -> bool:
    """Remove its files; whether nobody was fetching it."""
    with _nobody_fetches(model.sources, store) as alone:
        if alone:
            for source in model.sources:
                store.note(source).unlink(missing_ok=True)
            shutil.rmtree(model.directory, ignore_errors=True)
        return alone


def _notes(store: Store) -> Iterator[tuple[Source, Path, float]]:
    for path in store.notes.glob("*.json"):
        try:
            written = json.loads(path.read_text())
            source, directory = parse(written["source"], "/", {}), Path(written["directory"])
            used = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError):
            continue
        # Whatever a note says, nothing outside of the store is anybody's to remove.
        if directory.is_dir() and (store.root in directory.parents or store.hub in directory.parents):
            yield source, directory, used


def _bytes(directory: Path) -> int:
    """Links are not followed: the hub's snapshots link to files beside them."""
    size = 0
    for where, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
    return size


@contextmanager
def _nobody_fetches(sources: Iterable[Source], store: Store) -> Iterator[bool]:
    """Whether none of them is being fetched; within the block none can be."""
    held: list[int] = []
    try:
        for source in sources:
            lock = store.lock(source)
            lock.parent.mkdir(parents=True, exist_ok=True)
            held.append(os.open(lock, os.O_RDWR | os.O_CREAT, 0o666))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    try:
        yield alone
    finally:
        for descriptor in held:
            os.close(descriptor)
