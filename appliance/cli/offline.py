"""A deploy file for commands that need no server: examined, or its problems said and the command ended with 78."""

import json
import os
from pathlib import Path
from typing import Any

import typer

from appliance.config import load
from appliance.config.problem import Rejected, as_data, human
from appliance.models.inspect import inspect_source
from appliance.models.store import Store


def examine(file: Path) -> load.Examined:
    """With what is known of the models whose files are on this machine already. Raises Rejected."""
    store = Store()
    return load.examine(
        file,
        environ=os.environ,
        inspect=lambda source, storage: inspect_source(source, store, storage),
        memory_bytes=load.machine_memory(),
    )


def examine_or_exit(file: Path, kind: str, as_json: bool) -> load.Examined:
    try:
        return examine(file)
    except Rejected as rejected:
        if as_json:
            typer.echo(document(kind, None, [as_data(problem) for problem in rejected.problems], ok=False))
        else:
            typer.echo(human(rejected.problems), err=True)
        raise typer.Exit(Rejected.exit_code) from None


def document(kind: str, data: Any, diagnostics: list[dict[str, Any]], *, ok: bool = True) -> str:
    """The one JSON object a command prints."""
    whole = {"schema": 1, "kind": kind, "ok": ok, "data": data, "diagnostics": diagnostics}
    return json.dumps(whole, ensure_ascii=False, indent=2)
