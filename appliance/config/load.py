"""The only reader of files and environment: a path to a Deployment, or to all that is wrong with it."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from appliance.config import load_files as files
from appliance.config import source
from appliance.config.check import Expand, check
from appliance.config.checked import Checked
from appliance.config.deployment import EMPTY, Deployment
from appliance.config.extend import extend
from appliance.config.family import FamilyFile, family_file
from appliance.config.include import join
from appliance.config.load_files import Reader
from appliance.config.problem import Path as KeyPath
from appliance.config.problem import Place, Problem, Rejected, at, in_order
from appliance.config.resolve import resolve
from appliance.config.schema import Schema
from appliance.config.source import Node, Scalar
from appliance.config.substitute import expand
from appliance.config.world import Inspect, World


@dataclass(frozen=True, slots=True)
class Examined:
    """A deployment, and the file as it was written: before any model was completed by the one it extends."""

    deployment: Deployment
    written: Checked


def read(
    path: Path,
    *,
    environ: Mapping[str, str],
    inspect: Inspect,
    memory_bytes: int,
    held: Mapping[str, bytes] = EMPTY,
    document: bytes | None = None,
    tolerate: Collection[str] = (),
) -> Deployment:
    """The deployment a file describes. `inspect` says what a checkpoint is, None where its files are not here yet;
    `memory_bytes` is this machine's memory. Files of `held`, by absolute path, are not looked for on disk, and no
    others are included; `document` alone takes the place of the file itself.
    Raises Rejected with every problem found, if there is an error of a code that is not in `tolerate`.
    """
    return examine(
        path,
        environ=environ,
        inspect=inspect,
        memory_bytes=memory_bytes,
        held=held,
        document=document,
        tolerate=tolerate,
    ).deployment


def examine(
    path: Path,
    *,
    environ: Mapping[str, str],
    inspect: Inspect,
    memory_bytes: int,
    held: Mapping[str, bytes] = EMPTY,
    document: bytes | None = None,
    tolerate: Collection[str] = (),
) -> Examined:
    """What `read` gives, with the file it was made from: for questions about where a value comes from."""
    reader = Reader(path, environ.get("HOME", ""), held, document)
    tree, problems = _tree(reader, environ)
    if tree is None:
        raise _rejected(reader, problems, ())
    checked, found = check(tree, schema("deploy"), _substitution(reader, environ))
    file, unextended = extend(checked)
    world = World(
        bases=reader.bases,
        home=reader.home,
        memory_bytes=memory_bytes,
        families=families(),
        inspect=inspect,
        stat=files.stat,
        read=reader.absolute,
    )
    deployment, meaning = resolve(file, world)
    problems = [problem for problem in problems + found + unextended + meaning if problem.code not in tolerate]
    if any(problem.severity == "error" for problem in problems):
        raise _rejected(reader, problems, checked.secrets)
    warnings = in_order(reader.with_excerpt(problem, checked.secrets) for problem in problems)
    deployment = replace(
        deployment,
        digest=files.digest(reader.contents),
        files=tuple(reader.contents),
        sources=reader.sources(),
        warnings=warnings,
    )
    return Examined(deployment, checked)


def digest(paths: Iterable[str]) -> str:
    """The digest a Deployment made from these files now would have; of a file that is gone, that it is gone."""
    return files.digest(files.now(paths))


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
    found = [family(text, name) for name, text in family_texts()]
    return {file.family.name: file for file in found}


def family_texts() -> list[tuple[str, str]]:
    """The shipped family files: names and texts."""
    found = sorted(_shipped("profiles").iterdir(), key=lambda file: file.name)
    return [(file.name, file.read_text(encoding="utf-8")) for file in found if file.name.endswith(".yaml")]


def family(text: str, name: str) -> FamilyFile:
    """One family file. Raises Rejected."""
    tree, problems = source.parse(text, name)
    if tree is not None:
        checked, found = check(tree, schema("family"), lambda scalar, _: scalar)
        problems += found
    if problems:
        lines = text.splitlines()
        raise Rejected(replace(p, excerpt=files.printable(lines[p.line - 1])) if lines else p for p in problems)
    return family_file(checked.value)


def _rejected(reader: Reader, problems: Iterable[Problem], secrets: tuple[Place, ...]) -> Rejected:
    shown = [reader.with_excerpt(problem, secrets) for problem in problems]
    return Rejected(shown, tuple(reader.contents), files.digest(reader.contents))


def _substitution(reader: Reader, environ: Mapping[str, str]) -> Expand:
    def substituted(scalar: Scalar, path: KeyPath) -> Scalar | Problem:
        base = reader.bases[scalar.place.file]
        return expand(scalar, path, environ, lambda name: reader.relative(name, base))

    return substituted


def _tree(reader: Reader, environ: Mapping[str, str]) -> tuple[Node | None, list[Problem]]:
    """The file with those it includes as one tree."""
    tree, problems = _parsed(reader, str(reader.path), str(reader.path))
    if not isinstance(tree, source.Mapping) or "include" not in tree.entries:
        return tree, problems
    included: list[tuple[Node, Place]] = []
    seen = {os.path.abspath(reader.path)}
    for name, place, path in _included(tree.entries["include"].value, reader, environ):
        if os.path.abspath(name) in seen:
            continue
        seen.add(os.path.abspath(name))
        found, faults = _parsed(reader, name, name)
        problems += [_of_included(fault, name, place, path) for fault in faults]
        if found is not None:
            included.append((found, Place(name, 1, 1, 2)))
    joined, twice = join(tree, included, schema("deploy"))
    return joined, problems + twice


def _included(written: Node, reader: Reader, environ: Mapping[str, str]) -> Iterable[tuple[str, Place, KeyPath]]:
    """Each included file by the name it is shown under, with the place that names it."""
    if not isinstance(written, source.Sequence):
        return
    for i, item in enumerate(written.items):
        if isinstance(item, Scalar):
            path: KeyPath = ("include", i)
            pattern = _substitution(reader, environ)(item, path)
            # What is wrong with the entry itself is said when the tree is checked.
            if isinstance(pattern, Scalar) and pattern.text:
                for name in reader.matching(pattern.text, item.place):
                    yield name, item.place, path


def _of_included(problem: Problem, name: str, place: Place, path: KeyPath) -> Problem:
    """A missing file is the fault of the line that names it; an empty one has nothing to add."""
    if problem.code == "E108" and "cannot be read" in problem.message:
        return at(place, "E209", path, f"{name} {problem.message}", "paths are relative to the file they stand in")
    if problem.code == "E107":
        return replace(problem, message="the included file is empty", hint="delete it, or write something into it")
    return problem


def _parsed(reader: Reader, path: str, shown: str) -> tuple[Node | None, list[Problem]]:
    text = reader.configuration(path, shown)
    return (None, [text]) if isinstance(text, Problem) else source.parse(text, shown)


def _shipped(directory: str) -> Traversable:
    """Shipped data: inside an installed package, or beside it in a checkout."""
    package = resources.files("appliance")
    inside = package / "_shipped" / directory
    return inside if inside.is_dir() else package / ".." / directory
