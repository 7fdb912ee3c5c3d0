"""The files of one reading of a configuration: read once each, remembered for the digest and for excerpts."""

import errno
import glob
import hashlib
import json
import os
import re
import stat as modes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.config import sources
from appliance.config.fingerprint import FileFact
from appliance.config.problem import Place, Problem, at

Contents = Mapping[str, bytes | None]
"""By absolute path; None where there is nothing. A directory's content is the list of the names in it."""

_LARGEST = 64 * 2**20
_SECRET = r"""(["']?\s*:\s*)(?!["']?\$\{)("[^"]*"?|'[^']*'?|[^\s,}#][^,}#]*)"""
_MASKED = re.compile(rf"\b(secret){_SECRET}")
_MASKED_WHERE_NOTHING_IS_KNOWN = re.compile(rf"\b(secret|key){_SECRET}")
_BEFORE_THE_SCHEMA = ("E101", "E103", "E113")


@dataclass(slots=True)
class Reader:
    """Reads the file at `path` and what it names. Files of `held`, by absolute path, are not looked for on disk;
    `document` is what is read in place of the file at `path`.

    `confidential` are the files that may hold secrets, `directories` those that were searched, `bases` the
    directories of the files read as configuration by the names they are shown under.
    """

    path: Path
    home: str
    held: Mapping[str, bytes]
    document: bytes | None = None
    confidential: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)

    def configuration(self, path: str, shown: str) -> str | Problem:
        """The text of a file of the configuration, or why there is none."""
        place, absolute = Place(shown, 1, 1, 2), os.path.abspath(path)
        self.bases[shown] = os.path.dirname(absolute)
        self.contents[absolute] = None
        try:
            data = self.contents[absolute] = self.data(absolute)
        except OSError as error:
            hint = (
                "write one with `appliance init`, or name one with -f" if isinstance(error, FileNotFoundError) else ""
            )
            return at(place, "E108", (), f"cannot be read: {error.strerror or error}", hint)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            line, col = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
            return at(Place(shown, line, col, col + 1), "E108", (), "not UTF-8", "save it as UTF-8")
        self.lines[shown] = text.splitlines()
        return text

    def matching(self, pattern: str, place: Place) -> list[str]:
        """The names of the files a pattern of an `include` stands for, as they are shown; sorted.

        The directory it looks in counts as read: a new file in it is a change.
        """
        directory = os.path.dirname(place.file)
        found = os.path.normpath(os.path.join(directory, pattern))
        if pattern.startswith("~"):
            found = sources.absolute(pattern, self.bases[place.file], self.home)
        if not glob.has_magic(found):
            return [found]
        absolute = os.path.abspath(found)
        beginning = _without_magic(absolute)
        # A directory that is held has the files it had then, whatever is in it now.
        held = beginning in self.held
        names = [name for name in self.held if _fits(name, absolute)] if held else glob.glob(absolute)
        for parent in {beginning, *map(os.path.dirname, names)}:
            self.directories.add(parent)
            self.contents[parent] = (self.held.get(parent) or None) if held else _bytes(parent)
        return sorted(found if name == absolute else _shown(name, absolute, found) for name in names)

    def absent(self, path: str) -> None:
        """Nothing is at this absolute path; anything that comes there is a change."""
        self.contents[path] = None

    def relative(self, path: str, base: str) -> str:
        """For `${file:path}`. Raises OSError, UnicodeDecodeError."""
        try:
            found = sources.absolute(path, base, self.home)
        except sources.SourceSyntax as syntax:
            raise FileNotFoundError(2, syntax.message) from syntax
        self.confidential.add(found)
        return self.absolute(found)

    def absolute(self, path: str) -> str:
        """A text by its absolute path. Raises OSError, UnicodeDecodeError."""
        self.contents[path] = None
        data = self.contents[path] = self.data(path)
        return data.decode("utf-8")

    def data(self, path: str) -> bytes:
        """Raises OSError."""
        if self.document is not None and path == os.path.abspath(self.path):
            return self.document
        return self.held[path] if path in self.held else regular(path)

    def sources(self) -> dict[str, bytes]:
        """What was read and may be kept: of directories the names in them."""
        kept = {path: data for path, data in self.contents.items() if path not in self.confidential}
        return {path: data or b"" for path, data in kept.items() if data is not None or path in self.directories}

    def with_excerpt(self, problem: Problem, secrets: Sequence[Place]) -> Problem:
        """The problem with its source line, in which secrets are covered."""
        lines = self.lines.get(problem.file, [])
        if not 0 < problem.line <= len(lines):
            return problem
        return replace(problem, excerpt=_covered(lines[problem.line - 1].rstrip(), problem, secrets))


def regular(path: str | Path) -> bytes:
    """What is in a file. Raises OSError, also for what might never end: pipes, devices, files that are too large."""
    # Opening a pipe would wait for whoever writes into it.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if modes.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not modes.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {_LARGEST >> 20} MiB", str(path))
    return data


def digest(contents: Contents) -> str:
    total = hashlib.sha256()
    for path in sorted(contents):
        data = contents[path]
        total.update(json.dumps([path, None if data is None else hashlib.sha256(data).hexdigest()]).encode())
    return total.hexdigest()


def now(paths: Iterable[str]) -> Contents:
    """What is at these paths at this moment."""
    return {path: _bytes(path) for path in paths}


def stat(path: str) -> tuple[FileFact, ...] | None:
    """The files at a path: of a directory those directly in it, sorted; None where there is none."""
    try:
        if not os.path.isdir(path):
            found = os.stat(path)
            return (_fact(os.path.basename(path), found),) if modes.S_ISREG(found.st_mode) else None
        with os.scandir(path) as entries:
            return tuple(sorted(_fact(e.name, e.stat()) for e in entries if e.is_file()))
    except OSError:
        return None


def printable(line: str) -> str:
    """Without control characters, which would speak to the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)


def _covered(line: str, problem: Problem, secrets: Sequence[Place]) -> str:
    for place in secrets:
        if (place.file, place.line) == (problem.file, problem.line) and not line[place.col - 1 :].startswith(
            ("${", '"${', "'${")
        ):
            # A text of several lines has only its first character marked: everything behind it goes.
            end = place.end - 1 if place.end > place.col + 1 else len(line)
            line = line[: place.col - 1] + "*" * (end - place.col + 1) + line[end:]
    pattern = _MASKED_WHERE_NOTHING_IS_KNOWN if problem.code in _BEFORE_THE_SCHEMA else _MASKED
    # As long as it was, or the caret would stand in the wrong column.
    return printable(pattern.sub(lambda match: match[1] + match[2] + "*" * len(match[3].rstrip()), line))


def covered(text: str, name: str, secrets: Mapping[Place, str] | None) -> list[str]:
    """The lines of a configuration with its secrets covered; None where it could not be read."""
    code = _BEFORE_THE_SCHEMA[0] if secrets is None else ""
    known = secrets or {}
    long = [secret for place, secret in known.items() if place.end <= place.col + 1]
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and any(line.strip() in secret for secret in long):
            line = "***"
        lines.append(_covered(line, Problem(code, name, number, 1, "", ""), tuple(known)))
    return lines


def _fits(name: str, pattern: str) -> bool:
    return len(name.split("/")) == len(pattern.split("/")) and Path(name).match(pattern)


def _without_magic(pattern: str) -> str:
    parent = os.path.dirname(pattern)
    while glob.has_magic(parent):
        parent = os.path.dirname(parent)
    return parent


def _shown(name: str, absolute: str, shown: str) -> str:
    """A matched file the way its pattern was written: relative where that was."""
    return name if os.path.isabs(shown) else os.path.relpath(name, absolute[: len(absolute) - len(shown)] or "/")


def _bytes(path: str) -> bytes | None:
    try:
        if os.path.isdir(path):
            return "\n".join(sorted(os.listdir(path))).encode() or None
        return regular(path)
    except OSError:
        return None


def _fact(name: str, stat: os.stat_result) -> FileFact:
    return name, stat.st_size, stat.st_mtime_ns
