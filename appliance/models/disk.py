"""What is asked of the disk before and while a model is fetched: room for it, and one fetch at a time."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.errors import SourceError

_SPARE = 256 * 2**20
_GIB = 2**30


def check_room(directory: Path, needed: int) -> None:
    """Raises SourceError where `needed` bytes and a little more do not fit; `directory` need not exist yet."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < needed + _SPARE:
        raise SourceError(
            f"not enough room in {directory}: {needed / _GIB:.1f} GiB are needed, {free / _GIB:.1f} GiB are free; "
            f"make room or set storage.models to another disk",
            permanent=False,
        )


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold the file `lock`; a second process waits here until the first is done or dead."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise SourceError(f"cannot write to {lock.parent}: {error.strerror}", permanent=False) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
