"""`appliance models ls` and `rm`: the models that were fetched to this machine."""

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.pull import read_here, sources_of
from appliance.cli.recognising import families
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, size, table, tell
from appliance.config.deployment import Source
from appliance.config.sources import in_full, parse
from appliance.errors import BadRequest
from appliance.models.fetched import Fetched, fetched, remove
from appliance.models.store import Store


def ls(file: File = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """List the downloaded models, most recently used first, with size and who in the deploy file names them."""
    with failing("models", as_json):
        store, named = of_file(file)
        found = fetched(store)
        if as_json:
            tell("models", [_data(model, named) for model in found])
            return
        rows = [(model.name, size(model.bytes), _day(model.used), ", ".join(_names(model, named))) for model in found]
        typer.echo(table(("source", "size", "used", "named"), rows) if rows else "none was fetched")


def rm(
    source: Annotated[str, typer.Argument(help="A source, as `ls` shows it.")],
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Delete a downloaded model, unless the deploy file names it."""
    with failing("models", as_json):
        store, named = of_file(file)
        wanted = in_full(parsed(source))
        model = next((model for model in fetched(store) if wanted in map(in_full, model.sources)), None)
        if model is None:
            raise BadRequest(f"{source} was not fetched; `appliance models ls` lists what was")
        if names := _names(model, named):
            raise BadRequest(f"{file} names {source} as {', '.join(names)}: take it out of the file before")
        if not remove(model, store):
            raise BadRequest(f"{source} is being fetched; try again later")
        if as_json:
            tell("models", _data(model, named))
        else:
            typer.echo(f"removed {model.name}: {size(model.bytes)}")


def of_file(file: Path) -> tuple[Store, dict[str, Source]]:
    """Where models are kept by this file, if it is there, and the sources it names."""
    if not file.exists():
        return Store(), {}
    deployment = read_here(file)
    return Store().within(deployment.storage), sources_of(deployment)


def parsed(text: str) -> Source:
    """A source as it is written. Raises BadRequest."""
    catalogue = {name: listed.source for name, (_, listed) in families().catalogue.items()}
    try:
        return parse(text, os.getcwd(), catalogue, home=str(Path.home()))
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _names(model: Fetched, named: dict[str, Source]) -> list[str]:
    held = set(map(in_full, model.sources))
    return [name for name, source in named.items() if in_full(source) in held]


def _data(model: Fetched, named: dict[str, Source]) -> dict[str, object]:
    return {
        "sources": [in_full(source) for source in model.sources],
        "directory": str(model.directory),
        "bytes": model.bytes,
        "used": round(model.used),
        "named": _names(model, named),
    }


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=None):%Y-%m-%d %H:%M}" if seconds <= time.time() else "now"
