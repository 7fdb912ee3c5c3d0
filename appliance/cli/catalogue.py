"""`appliance models search` and `verify`: the short names a source may be written as, and whether they still hold."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from appliance.cli.recognising import families
from appliance.cli.telling import AsJson, failing, size, table, tell
from appliance.config.families import Families
from appliance.config.sources import parse
from appliance.config.suggest import did_you_mean
from appliance.errors import BadRequest, SourceError
from appliance.models.published import weights

FAILURE = 1
_AT_ONCE = 8
_UNKNOWN = "-"
_WORDS = re.compile(r"[^a-z0-9.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """A short name; `memory` is bytes, about, None where nobody reckoned."""

    name: str
    family: str
    source: str
    memory: int | None


def entries(every: Families) -> list[Entry]:
    """All short names, in order."""
    found = every.catalogue.items()
    return sorted((Entry(n, family, e.source, e.memory) for n, (family, e) in found), key=lambda entry: entry.name)


def search(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words of its name, family or repository; default: everything.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the short name of a model: all of the words must be in its name, family or repository.

    Memory marked ~ is estimated from parameters and bits; `models verify` compares it with the files.
    """
    wanted = [word.lower() for word in words or ()]
    with failing("search", as_json):
        known = entries(families())
        found = matching(known, wanted)
        if as_json:
            tell("search", [asdict(entry) for entry in found])
            return
        if not found:
            hint = did_you_mean(" ".join(wanted), [entry.name for entry in known])
            raise BadRequest(f"no short name has {' and '.join(wanted)}; {hint or 'write hf:owner/name as a source'}")
    typer.echo(table(("NAME", "FAMILY", "MEMORY", "SOURCE"), [_row(entry) for entry in found]))


def matching(known: list[Entry], words: list[str]) -> list[Entry]:
    """The entries that have all of the words: as words of their own, or where no entry has one so, anywhere."""
    for word in words:
        whole = [entry for entry in known if word in _WORDS.split(_said(entry))]
        known = whole or [entry for entry in known if word in _said(entry)]
    return known


def _said(entry: Entry) -> str:
    return f"{entry.name} {entry.family} {entry.source}".lower()


def _row(entry: Entry) -> tuple[str, ...]:
    memory = _UNKNOWN if entry.memory is None else f"~{size(entry.memory)}"
    return entry.name, entry.family, memory, entry.source.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a hub said of a short name. `weights` are bytes on disk; `problem` is "" where all is well."""

    name: str
    source: str
    weights: int | None
    problem: str
    asked: bool = True


def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Short names; default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the hub whether short names still hold: repository, revision and size. Exit 1 if one does not.

    Nothing is downloaded. Where the hub cannot be reached, the names that were not checked are left out.
    """
    with failing("verify", as_json):
        known = {entry.name: entry for entry in entries(families())}
        if unknown := [name for name in names or () if name not in known]:
            hint = did_you_mean(unknown[0], known) or "`appliance models search` lists the short names"
            raise BadRequest(f"no short name {unknown[0]}; {hint}")
        found = list(_checked([known[name] for name in names or known]))
        if not any(each.asked for each in found):
            raise SourceError(f"nothing was checked: {found[0].problem}", permanent=False)
    wrong = [each for each in found if each.problem]
    if as_json:
        tell("verify", [asdict(each) for each in found], ok=not wrong)
    else:
        _tell(found)
    if wrong:
        raise typer.Exit(FAILURE)


def _checked(wanted: list[Entry]) -> Iterator[Checked]:
    """The first alone: where the hub cannot be reached the others need not wait for it one by one."""
    first = _check(wanted[0])
    yield first
    if not first.asked:
        yield from (Checked(e.name, e.source, None, first.problem, asked=False) for e in wanted[1:])
        return
    with ThreadPoolExecutor(_AT_ONCE) as several:
        yield from several.map(_check, wanted[1:])


def _check(entry: Entry) -> Checked:
    source = parse(entry.source, "/", {})
    if source.kind != "hf":
        return Checked(entry.name, entry.source, None, "")
    try:
        found = weights(source)
    except SourceError as error:
        return Checked(entry.name, entry.source, None, error.message, asked=error.permanent)
    return Checked(entry.name, entry.source, found, _too_small(entry, found))


def _too_small(entry: Entry, found: int) -> str:
    if entry.memory is None or found <= entry.memory:
        return ""
    return f"its weights alone are {size(found)}, the catalogue says {size(entry.memory)}"


def _tell(found: Iterable[Checked]) -> None:
    counts = {"good": 0, "wrong": 0, "not asked": 0}
    for each in found:
        counts["not asked" if not each.asked else "wrong" if each.problem else "good"] += 1
        if each.problem:
            typer.echo(f"{each.name}: {each.problem}")
    typer.echo(", ".join(f"{count} {kind}" for kind, count in counts.items() if count))
