"""The only reader of files and environment: a path to a Deployment, or to all that is wrong with it."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from appliance.config import source, sources
from appliance.config.check import check
from appliance.config.deployment import EMPTY, Deployment
from appliance.config.family import FamilyFile, family_file
from appliance.config.fingerprint import FileFact
from appliance.config.problem import Path as KeyPath
from appliance.config.problem import Place, Problem, Rejected, at
from appliance.config.resolve import resolve
from appliance.config.schema import Schema
from appliance.config.source import Scalar
from appliance.config.substitute import expand
from appliance.config.world import Inspect, World


def read(
    path: Path,
    *,
    environ: Mapping[str, str],
    inspect: Inspect,
    memory_bytes: int,
    held: Mapping[str, bytes] = EMPTY,
) -> Deployment:
    """The deployment a file describes. `inspect` says what a checkpoint is, None where its files are not here yet;
    `memory_bytes` is this machine's memory. Files of `held`, by absolute path, are not looked for on disk.
    Raises Rejected with every problem found.
    """
    reader = _Reader(path, environ.get("HOME", ""), held)
    deployment, problems = _resolved(reader, environ, inspect, memory_bytes)
    problems = [reader.with_excerpt(problem) for problem in problems]
    if any(problem.severity == "error" for problem in problems):
        raise Rejected(problems, tuple(reader.contents), _digest(reader.contents))
    assert deployment is not None
    kept = {file: data for file, data in reader.contents.items() if data is not None and file not in reader.secret}
    return replace(deployment, files=tuple(reader.contents), sources=kept, warnings=tuple(problems))


def digest(files: Iterable[str]) -> str:
    """The digest a Deployment made from these files now would have; of a file that is gone, that it is gone."""
    return _digest({file: _bytes(file) for file in files})


def machine_memory() -> int:
    """Bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def schema_text(which: str) -> str:
    """The JSON schema `deploy` or `family`, as shipped."""
    return (_shipped("schemas") / f"{which}.schema.json").read_text(encoding="utf-8")


@cache
def schema(which: str) -> Schema:
    """The JSON schema `deploy` or `family`, ready for use."""
    return Schema(json.loads(schema_text(which)))


@cache
def families() -> Mapping[str, FamilyFile]:
    """The shipped family files by family. Raises Rejected where one is broken."""
    files = [family(text, name) for name, text in family_texts()]
    return {file.family.name: file for file in files}


def family_texts() -> list[tuple[str, str]]:
    """The shipped family files: names and texts."""
    files = sorted(_shipped("profiles").iterdir(), key=lambda file: file.name)
    return [(file.name, file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".yaml")]


def family(text: str, name: str) -> FamilyFile:
    """One family file. Raises Rejected."""
    tree, problems = source.parse(text, name)
    if tree is not None:
        checked, found = check(tree, schema("family"), lambda scalar, _: scalar)
        problems += found
    if problems:
        raise Rejected(_excerpted(problem, {name: text}) for problem in problems)
    return family_file(checked.value)


def _resolved(
    reader: "_Reader", environ: Mapping[str, str], inspect: Inspect, memory_bytes: int
) -> tuple[Deployment | None, list[Problem]]:
    text = reader.deploy_file()
    if isinstance(text, Problem):
        return None, [text]
    tree, problems = source.parse(text, reader.shown)
    if tree is None:
        return None, problems

    def substituted(scalar: Scalar, path: KeyPath) -> Scalar | Problem:
        return expand(scalar, path, environ, reader.relative)

    checked, found = check(tree, schema("deploy"), substituted)
    world = World(
        base=reader.base,
        home=reader.home,
        memory_bytes=memory_bytes,
        families=families(),
        inspect=inspect,
        stat=_stat,
        read=reader.absolute,
    )
    deployment, meaning = resolve(checked, world)
    if deployment is not None:
        deployment = replace(deployment, digest=_digest(reader.contents))
    return deployment, problems + found + meaning


@dataclass(slots=True)
class _Reader:
    """Reads texts and remembers what it read: for the digest, and for the source lines of problems."""

    path: Path
    home: str
    held: Mapping[str, bytes]
    secret: set[str] = field(default_factory=set)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return str(self.path)

    @property
    def base(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def deploy_file(self) -> str | Problem:
        place, file = Place(self.shown, 1, 1, 2), os.path.abspath(self.path)
        self.contents[file] = None
        try:
            data = self.bytes(file)
        except OSError as error:
            hint = "name one with -f" if isinstance(error, FileNotFoundError) else ""
            return at(place, "E108", (), f"cannot be read: {error.strerror or error}", hint)
        self.contents[file] = data
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            line, col = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
            return at(Place(self.shown, line, col, col + 1), "E108", (), "not UTF-8", "save it as UTF-8")
        self.lines = text.splitlines()
        return text

    def relative(self, path: str) -> str:
        """For `${file:path}`. Raises OSError, UnicodeDecodeError."""
        try:
            found = sources.absolute(path, self.base, self.home)
        except sources.SourceSyntax as syntax:
            raise FileNotFoundError(2, syntax.message) from syntax
        self.secret.add(found)
        return self.absolute(found)

    def absolute(self, path: str) -> str:
        """A text by its absolute path. Raises OSError, UnicodeDecodeError."""
        self.contents[path] = None
        data = self.contents[path] = self.bytes(path)
        return data.decode("utf-8")

    def bytes(self, path: str) -> bytes:
        """Raises OSError."""
        return self.held[path] if path in self.held else Path(path).read_bytes()

    def with_excerpt(self, problem: Problem) -> Problem:
        return replace(problem, excerpt=_line(self.lines, problem.line))


def _excerpted(problem: Problem, texts: Mapping[str, str]) -> Problem:
    return replace(problem, excerpt=_line(texts[problem.file].splitlines(), problem.line))


def _line(lines: list[str], number: int) -> str:
    if not 0 < number <= len(lines):
        return ""
    # Control characters would speak to the terminal.
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in lines[number - 1].rstrip())


def _stat(path: str) -> tuple[FileFact, ...] | None:
    """The files at a path: of a directory those directly in it, sorted; None where there is nothing."""
    try:
        if not os.path.isdir(path):
            return (_fact(os.path.basename(path), os.stat(path)),)
        with os.scandir(path) as entries:
            return tuple(sorted(_fact(e.name, e.stat()) for e in entries if e.is_file()))
    except OSError:
        return None


def _fact(name: str, stat: os.stat_result) -> FileFact:
    return name, stat.st_size, stat.st_mtime_ns


def _bytes(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _digest(contents: Mapping[str, bytes | None]) -> str:
    total = hashlib.sha256()
    for path in sorted(contents):
        data = contents[path]
        total.update(json.dumps([path, None if data is None else hashlib.sha256(data).hexdigest()]).encode())
    return total.hexdigest()


def _shipped(directory: str) -> Traversable:
    """Shipped data: inside an installed package, or beside it in a checkout."""
    package = resources.files("appliance")
    inside = package / "_shipped" / directory
    return inside if inside.is_dir() else package / ".." / directory
