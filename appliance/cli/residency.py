"""`appliance load`, `unload` and `pin`: bring a model into memory, give its memory back, or keep it there."""

from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient, segment
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, Timeout, failing, seconds, tell

Name = Annotated[str, typer.Argument(help="A model of the deploy file.")]


def load(name: Name, file: File = DEFAULT_FILE, timeout: Timeout = 300.0, as_json: AsJson = False) -> None:
    """Load a model now, and wait until it is ready."""
    with failing("load", as_json):
        _tell("load", AdminClient(file).post(f"/models/{segment(name)}/load", timeout=str(timeout)), as_json)


def unload(
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="End the requests that use it.")] = False,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Unload a model; the next request loads it again. Refused while it is in use, unless --now."""
    with failing("unload", as_json):
        _tell("unload", AdminClient(file).post(f"/models/{segment(name)}/unload", now=str(int(now))), as_json)


def pin(
    name: Name,
    long: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=seconds,
            metavar="DURATION",
            help="For how long, like 2h; default: until the appliance stops.",
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Undo it.")] = False,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Keep a model in memory. The deploy file is not changed; `ps` shows the pin as a difference from it."""
    with failing("pin", as_json):
        asked = {} if long is None else {"for": str(long)}
        admin = AdminClient(file)
        _tell("pin", admin.post(f"/models/{segment(name)}/pin", **({"for": "0"} if off else asked)), as_json)


def _tell(kind: str, model: dict[str, Any], as_json: bool) -> None:
    if as_json:
        tell(kind, model)
    else:
        typer.echo(f"{model['name']}: {model['state']}")
