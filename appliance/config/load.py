"""The only reader of files and environment: a path to a Deployment, or to all that is wrong with it."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.config import load_files as files
from appliance.config import source
from appliance.config.check import Expand, check
from appliance.config.checked import Checked
from appliance.config.deployment import EMPTY, Deployment
from appliance.config.extend import extend
from appliance.config.families import Families
from appliance.config.family import FamilyFile
from appliance.config.include import join
from appliance.config.load_families import families as families
from appliance.config.load_families import family as family
from appliance.config.load_families import family_texts as family_texts
from appliance.config.load_families import parsed, unique, with_own
from appliance.config.load_files import Reader
from appliance.config.load_shipped import schema as schema
from appliance.config.load_shipped import schema_text as schema_text
from appliance.config.problem import Path as KeyPath
from appliance.config.problem import Place, Problem, Rejected, at, in_order
from appliance.config.resolve import resolve
from appliance.config.source import Node, Scalar
from appliance.config.sources import SourceSyntax
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
    known, broken = _families(reader, environ)
    problems += broken
    world = World(
        bases=reader.bases,
        home=reader.home,
        memory_bytes=memory_bytes,
        families=known,
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
        listen_at=tuple(reader.with_excerpt(problem, checked.secrets) for problem in _listen_at(checked)),
    )
    return Examined(deployment, checked)


def digest(paths: Iterable[str]) -> str:
    """The digest a Deployment made from these files now would have; of a file that is gone, that it is gone."""
    return files.digest(files.now(paths))


def covered(text: str, name: str) -> list[str]:
    """The lines of a file of a configuration, good or bad, as they may be shown: with its secrets covered."""
    tree, _ = source.parse(text, name)
    if tree is None:
        return files.covered(text, name, None)
    checked, _ = check(tree, schema("deploy"), lambda scalar, _: scalar)
    texts = {scalar.place: scalar.text for scalar in checked.scalars.values()}
    return files.covered(text, name, {place: texts.get(place, "") for place in checked.secrets})


def machine_memory() -> int:
    """Bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def own_families(environ: Mapping[str, str]) -> Path | None:
    """The directory of a user's own family files; None where there is no home."""
    home = environ.get("APPLIANCE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.appliance")
    return Path(home, "profiles").absolute() if home else None


def _listen_at(checked: Checked) -> Iterable[Problem]:
    whole: KeyPath = ("server", "listen")
    for path in [path for path in checked.values if path[:-1] == whole] or [whole]:
        yield at(checked.at_value(path), "E216", path, "")


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
    for name, place, path in _included(tree.entries["include"].value, reader, environ, problems):
        if os.path.abspath(name) in seen:
            continue
        seen.add(os.path.abspath(name))
        found, faults = _parsed(reader, name, name)
        problems += [_of_included(fault, name, place, path) for fault in faults]
        if found is not None:
            included.append((found, Place(name, 1, 1, 2)))
    joined, twice = join(tree, included, schema("deploy"))
    return joined, problems + twice


def _included(
    written: Node, reader: Reader, environ: Mapping[str, str], problems: list[Problem]
) -> Iterable[tuple[str, Place, KeyPath]]:
    """Each included file by the name it is shown under, with the place that names it; what names none is added."""
    if not isinstance(written, source.Sequence):
        return
    for i, item in enumerate(written.items):
        if isinstance(item, Scalar):
            path: KeyPath = ("include", i)
            pattern = _substitution(reader, environ)(item, path)
            # What is wrong with the entry itself is said when the tree is checked.
            if isinstance(pattern, Scalar) and pattern.text:
                try:
                    names = reader.matching(pattern.text, item.place)
                except SourceSyntax as syntax:
                    problems.append(at(item.place, "E209", path, syntax.message, syntax.hint))
                    continue
                for name in names:
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


def _families(reader: Reader, environ: Mapping[str, str]) -> tuple[Families, list[Problem]]:
    """Those shipped and the user's own, which are read like files the deploy file includes."""
    directory = own_families(environ)
    if directory is None:
        return families(), []
    if not (str(directory) in reader.held if reader.held else directory.is_dir()):
        # It may come to be.
        reader.absent(str(directory))
        return families(), []
    problems: list[Problem] = []
    found: list[tuple[str, FamilyFile]] = []
    for name in reader.matching(f"{directory}/*.yaml", Place(str(reader.path), 1, 1, 2)):
        text = reader.configuration(name, name)
        file, wrong = (None, [text]) if isinstance(text, Problem) else parsed(text, name)
        problems += wrong
        found += [(name, file)] if file is not None else []
    return with_own(file for _, file in found), problems + unique(found)
