"""`appliance load` and `appliance unload`: bring a model into memory, or give its memory back."""

from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient, segment
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, Timeout, failing, tell

Name = Annotated[str, typer.Argument(help="A model of the deploy file.")]


def load(name: Name, file: File = DEFAULT_FILE, timeout: Timeout = 300.0, as_json: AsJson = False) -> None:
    """Load a model now, and wait until it is ready."""
    with failing("load", as_json):
        _tell("load", AdminClient(file).post(f"/models/{segment(name)}/load", timeout=str(timeout)), as_json)


def unload(name: Name, file: File = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Stop a model's engine; the next request loads it again."""
    with failing("unload", as_json):
        _tell("unload", AdminClient(file).post(f"/models/{segment(name)}/unload"), as_json)


def _tell(kind: str, model: dict[str, Any], as_json: bool) -> None:
    if as_json:
        tell(kind, model)
    else:
        typer.echo(f"{model['name']}: {model['state']}")
