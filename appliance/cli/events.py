"""`appliance events`: what happens from now on, a line each."""

import json
from datetime import datetime
from typing import Any

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing


def events(file: File = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Follow the events of a running appliance until it stops; with --json one object per line."""
    with failing("events", as_json):
        for event in AdminClient(file).lines("/events"):
            typer.echo(json.dumps(event, ensure_ascii=False) if as_json else _shown(event))


def _shown(event: dict[str, Any]) -> str:
    fields = [f"{name}={_value(value)}" for name, value in event.items() if name not in ("event", "time")]
    at = datetime.fromtimestamp(event["time"]).strftime("%H:%M:%S") if "time" in event else "now     "
    return " ".join([at, event["event"], *fields])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
