"""`appliance history` and `appliance diff`: the generations that are kept, whether the appliance runs or not."""

import difflib
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient, NotReachable
from appliance.cli.reading import read
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, note, table, tell
from appliance.config.deployment import Deployment
from appliance.config.diff import diff as difference
from appliance.config.load import covered
from appliance.control.journal import Generation, Journal
from appliance.control.state_dir import state_of
from appliance.errors import UnknownGeneration

HEAD = ("", "GENERATION", "SINCE", "CAUSE", "CHANGES")
SHOWN_CHANGES = 3


def history(file: File = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """List the kept generations of the configuration, newest first; * is running."""
    with failing("history", as_json):
        running = None
        with suppress(NotReachable):
            running = AdminClient(file).get("/status")["generation"]
    kept = [_row(generation, running) for generation in _journal(file).history()]
    if as_json:
        tell("history", {"generations": kept})
    elif kept:
        typer.echo(table(HEAD, [_shown(row) for row in kept]))
    else:
        note(f"nothing is kept of {file}: it was never served")


def diff(
    a: Annotated[int, typer.Argument(metavar="A", help="The number of a generation.")],
    b: Annotated[int | None, typer.Argument(metavar="[B]", help="Another generation; default: the newest.")] = None,
    file: File = DEFAULT_FILE,
    source: Annotated[bool, typer.Option("--source", help="Compare the texts instead of their meaning.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the difference between two kept generations."""
    with failing("diff", as_json):
        journal = _journal(file)
        old, new = _kept(journal, a), _kept(journal, b)
        changes = _texts(old, new) if source else _meaning(file, old, new)
    if as_json:
        tell("diff", {"from": old.number, "to": new.number, "changes": changes})
    elif changes:
        typer.echo("\n".join(changes))


def _journal(file: Any) -> Journal:
    return Journal(state_of(file).generations)


def _kept(journal: Journal, number: int | None) -> Generation:
    found = journal.newest() if number is None else journal.get(number)
    if found is None:
        raise UnknownGeneration(f"generation {number or ''} is not kept; `appliance history` lists those that are")
    return found


def _meaning(file: Any, old: Generation, new: Generation) -> list[str]:
    deployments: list[Deployment] = [read(file, generation.held) for generation in (old, new)]
    return str(difference(*deployments)).splitlines()


def _texts(old: Generation, new: Generation) -> list[str]:
    """Compared as they are, so that another secret is a change; shown with secrets covered."""
    lines: list[str] = []
    for path in sorted(old.sources.keys() | new.sources.keys()):
        before, after = (generation.sources.get(path, "") for generation in (old, new))
        shown = {
            line: cover
            for text in (before, after)
            for line, cover in zip(text.splitlines(), covered(text, path), strict=True)
        }
        from_, to = (f"{path} ({generation.number})" for generation in (old, new))
        found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), from_, to, lineterm=""))
        lines += found[:2] + [line[:1] + shown.get(line[1:], line[1:]) for line in found[2:]]
    return lines


def _row(generation: Generation, running: int | None) -> dict[str, Any]:
    return {
        "number": generation.number,
        "time": generation.time,
        "cause": generation.cause,
        "digest": generation.digest,
        "running": generation.number == running,
        "changes": list(generation.changes),
    }


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    changes = row["changes"]
    more = f" and {len(changes) - SHOWN_CHANGES} more" if len(changes) > SHOWN_CHANGES else ""
    since = datetime.fromtimestamp(row["time"]).strftime("%Y-%m-%d %H:%M:%S")
    said = ", ".join(change.strip() for change in changes[:SHOWN_CHANGES]) + more
    return ("*" if row["running"] else "", str(row["number"]), since, row["cause"], said)
