"""What the files of a deployment look like on disk: where to watch for changes of them.

Every symbolic link on the way to a file counts, so that a switched link is seen as well as a written file.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Watched:
    """Directories to watch, those of `paths`, whose change may be a change of a file; `identities` tells a
    directory from another one later made in its place."""

    directories: frozenset[str]
    paths: frozenset[str]
    identities: frozenset[tuple[int, int]]


def watched(names: Iterable[str]) -> Watched:
    """Where changes of these files would show; directories that are not there are left out."""
    paths = frozenset(path for name in names for path in chain(name))
    parents = {os.path.dirname(path) for path in paths} - {os.path.sep}
    found = {parent: stamp for parent in parents if (stamp := _stat(parent)) is not None}
    return Watched(frozenset(found), paths, frozenset((stat.st_dev, stat.st_ino) for stat in found.values()))


def chain(name: str) -> list[str]:
    """The file, and each symbolic link passed on the way to its content, as absolute paths."""
    path = os.path.abspath(name)
    links = [path]
    for _ in range(MAX_LINKS):
        link = _first_link(path)
        if link is None:
            break
        links.append(link)
        target = os.path.join(os.path.dirname(link), os.readlink(link))
        path = os.path.normpath(target + path[len(link) :])
    return [*links, path]


def _first_link(path: str) -> str | None:
    end = 0
    while end < len(path):
        end = path.find(os.path.sep, end + 1)
        end = len(path) if end < 0 else end
        if os.path.islink(path[:end]):
            return path[:end]
    return None


def stamps(names: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Cheap to compare: changes whenever a file was written or replaced, unless its time was set back."""
    found = map(_stat, names)
    return tuple((s.st_mtime_ns, s.st_size, s.st_ino, s.st_dev) if s else () for s in found)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
