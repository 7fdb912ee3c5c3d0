"""Which state is nobody's any more: that of a deploy file which is gone and was not served for thirty days.

Both have to be so: a file on a disk that is not mounted today, or one that is about to be put back, keeps its state.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from appliance.control.state_dir import LOCK, NAMES, StateDir, names_of

UNUSED_SECONDS = 30 * 86_400.0


def remove_leftovers(root: Path, now: float) -> list[Path]:
    """Remove the state below `root` that is nobody's at `now`, in Unix seconds; the deploy files it was of.

    What another process holds stays, and so does what cannot be removed.
    """
    removed = [file for state in _states(root) if (file := _remove(state, now)) is not None]
    _forget_names(root)
    return removed


def _states(root: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in root.iterdir() if path.name != NAMES and path.is_dir())


def _remove(path: Path, now: float) -> Path | None:
    names = names_of(path)
    if not names or any(map(os.path.lexists, names)) or now - _last_used(path) < UNUSED_SECONDS:
        return None
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        StateDir(names[0], path, path).socket.unlink(missing_ok=True)
        shutil.rmtree(path)
    except OSError:
        return None
    finally:
        os.close(lock)
    return names[0]


def _last_used(path: Path) -> float:
    """When it was last started or changed; its own time is that of its newest entry."""
    return max(entry.stat().st_mtime for entry in (path, *path.iterdir()))


def _forget_names(root: Path) -> None:
    """Links that led to what is gone."""
    with suppress(OSError):
        for name in (root / NAMES).iterdir():
            if not (root / name.read_text(encoding="ascii").strip()).is_dir():
                name.unlink()
