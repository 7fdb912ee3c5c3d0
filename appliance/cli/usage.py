"""`appliance usage`: what every key used of every model, from the records beside the deploy file's state."""

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, note, table, tell
from appliance.config import units
from appliance.control.state_dir import state_of
from appliance.control.usage import COUNTS, Record, Used, recorded
from appliance.errors import ApplianceError

NOBODY = "-"
"""In tables: those who need no key."""


class Per(StrEnum):
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


_FORMS = {Per.HOUR: "%Y-%m-%dT%H:%M%z", Per.DAY: "%Y-%m-%d", Per.MONTH: "%Y-%m"}

Row = tuple[str, str, str]
"""When ("" without `--per`), key and model."""


class NoTime(ApplianceError):
    exit_code = 2


def usage(
    file: File = DEFAULT_FILE,
    since: Annotated[
        str | None, typer.Option("--since", help="A day like 2026-11-29, a time like 2026-11-29T14:00, or 7d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="The same; usage from then on is left out.")] = None,
    per: Annotated[Per | None, typer.Option("--per", help="A line for every hour, day or month.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Only this model.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show requests and tokens by key and model, whether the appliance is running or not."""
    with failing("usage", as_json):
        now = datetime.now().astimezone()
        records = recorded(state_of(file).usage, _moment(since, now, 0), _moment(until, now, math.inf))
        found = [each for each in records if key in (None, each.key) and model in (None, each.model)]
        sums = added(found, per)
    if as_json:
        tell("usage", [{**_named(row, per, None), **asdict(used)} for row, used in sums.items()])
    elif as_csv:
        typer.echo(_csv(sums, per), nl=False)
    elif sums:
        typer.echo(_table(sums, per))
    else:
        note("nothing was used in that time" if since or until else f"nothing was used yet of what {file} serves")


def added(records: Iterable[Record], per: Per | None) -> dict[Row, Used]:
    """The sums, in order; hours of this machine's time zone."""
    sums: dict[Row, Used] = {}
    for record in records:
        at = datetime.fromtimestamp(record.start).astimezone()
        row = (at.strftime(_FORMS[per]) if per else "", record.key, record.model)
        sums[row] = sums.get(row, Used()) + record.used
    return dict(sorted(sums.items()))


def _moment(text: str | None, now: datetime, default: float) -> float:
    """Unix seconds. Raises NoTime."""
    if text is None:
        return default
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return now.timestamp() - units.duration(text)
    except ValueError:
        raise NoTime(f"{text!r} is no time; write 2026-11-29, 2026-11-29T14:00, or 7d for seven days ago") from None


def _named(row: Row, per: Per | None, nobody: str | None) -> dict[str, str | None]:
    when, key, model = row
    return {**({per.value: when} if per else {}), "key": key or nobody, "model": model}


def _csv(sums: dict[Row, Used], per: Per | None) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [*([per.value] if per else []), "key", "model", *COUNTS], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**_named(row, per, ""), **asdict(used)} for row, used in sums.items())
    return out.getvalue()


def _table(sums: dict[Row, Used], per: Per | None) -> str:
    head = ([per.value.upper()] if per else []) + ["KEY", "MODEL", "REQUESTS", "PROMPT", "CACHED", "COMPLETION"]
    rows = [
        [*(str(name) for name in _named(row, per, NOBODY).values()), *map(str, asdict(used).values())]
        for row, used in sums.items()
    ]
    return table(head, rows)
