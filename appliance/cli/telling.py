"""How runtime commands say things: data on stdout, everything else on stderr, colour on a terminal only."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import Refused
from appliance.config import units
from appliance.config.problem import Rejected, as_data, human
from appliance.errors import ApplianceError

FAILURE, NOT_CONVERGED, REJECTED = 1, 4, 78

_NEXT = "; what ran before goes on running: correct the file and save it"

DEFAULT_FILE = Path("deploy.yaml")
File = Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait until the models are as the file says; exit 4 if not."),
]


def seconds(text: str | float) -> float:
    """Of an option. Raises typer.BadParameter."""
    try:
        return units.seconds(text)
    except units.NotAQuantity as error:
        raise typer.BadParameter(f"{error.message}: {error.hint}" if error.hint else error.message) from None


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", parser=seconds, metavar="DURATION", show_default="5m", help="How long to wait, like 90s."
    ),
]


@contextmanager
def failing(kind: str, as_json: bool) -> Iterator[None]:
    """Within the block an error of ours is said in the form that was asked for."""
    try:
        yield
    except Rejected as rejected:
        if as_json:
            tell(kind, None, [as_data(problem) for problem in rejected.problems], ok=False)
        else:
            note(human(rejected.problems))
        raise typer.Exit(REJECTED) from None
    except ApplianceError as error:
        code = int(getattr(error, "exit_code", FAILURE))
        problems = error.problems if isinstance(error, Refused) else []
        if as_json:
            reason = error.reason if isinstance(error, Refused) else error.code
            tell(kind, None, problems or [{"code": reason, "message": error.message}], ok=False)
        else:
            for problem in problems:
                note(located(problem))
            note(f"appliance: {error.message}{_NEXT if code == REJECTED else ''}", "red")
        raise typer.Exit(code) from None


def tell(kind: str, data: Any, diagnostics: Sequence[Any] = (), *, ok: bool = True, indent: int | None = 2) -> None:
    """One JSON object on stdout."""
    whole = {"schema": 1, "kind": kind, "ok": ok, "data": data, "diagnostics": list(diagnostics)}
    typer.echo(json.dumps(whole, ensure_ascii=False, indent=indent))


def note(text: str, colour: str = "") -> None:
    """A line on stderr."""
    typer.echo(painted(text, colour, sys.stderr.isatty()), err=True)


def painted(text: str, colour: str, terminal: bool) -> str:
    """The text in a colour where that can be seen and is wanted."""
    return typer.style(text, fg=colour) if colour and terminal and not os.environ.get("NO_COLOR") else text


def located(problem: dict[str, Any]) -> str:
    """A problem in one line."""
    place = f"{problem['file']}:{problem['line']}:{problem['column']}"
    said = f"{problem['path']}: {problem['message']}" if problem["path"] else problem["message"]
    hint = f"; {problem['hint']}" if problem["hint"] else ""
    return f"{place} {problem['severity']}[{problem['code']}] {said}{hint}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they have to be, two blanks apart."""
    whole = [list(head), *map(list, rows)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in whole)
    return "\n".join(line.rstrip() for line in lines)


def size(count: int) -> str:
    """Bytes for people: 1.4 GiB."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def duration(seconds: float) -> str:
    """Seconds for people: 4m 10s."""
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    shown = [f"{count}{unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0s"
