"""What the files of a deployment look like on disk: where to watch for changes of them.

Every symbolic link on the way to a file counts, so that a switched link is seen as well as a written file.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass

MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Watched:
    """Directories to watch, those of `paths` and `listed` ones, of which every entry counts; `identities` tells a
    directory from another one later made in its place."""

    directories: frozenset[str]
    paths: frozenset[str]
    listed: frozenset[str]
    identities: frozenset[tuple[int, int]]

    def concerns(self, path: str) -> bool:
        """Whether a change of this path may be a change of a file."""
        return path in self.paths or os.path.dirname(path) in self.listed


def watched(names: Collection[str]) -> Watched:
    """Where changes of these files, and of what is in these directories, would show; directories that are not there
    are left out.
    """
    paths = frozenset(path for name in names for path in chain(name))
    listed = frozenset(path for name in names if os.path.isdir(name) for path in (name, os.path.realpath(name)))
    parents = ({os.path.dirname(path) for path in paths} | listed) - {os.path.sep}
    found = {parent: stamp for parent in parents if (stamp := _stat(parent)) is not None}
    return Watched(frozenset(found), paths, listed, frozenset((stat.st_dev, stat.st_ino) for stat in found.values()))


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


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
