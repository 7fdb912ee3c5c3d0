"""`appliance pull`: fetches models before they are asked for, with a progress bar."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.recognising import families
from appliance.config import load
from appliance.config.deployment import Deployment, Source
from appliance.config.problem import Rejected
from appliance.config.sources import SourceSyntax, parse
from appliance.errors import SourceError
from appliance.models.inspect import inspect_source
from appliance.models.progress import Report
from appliance.models.pull import pull as fetch
from appliance.models.store import Store

FAILURE, USAGE = 1, 2


def pull(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of the deploy file, or sources; default: all.")
    ] = None,
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Download the models of a deploy file, or the given ones, unless they are here already."""
    deployment = _deployment(models or [], file)
    store = Store().within(deployment.storage) if deployment else Store()
    wanted = _wanted(models or [], file, deployment)
    done, failed = [], []
    for name, source in wanted.items():
        here = store.locate(source) is not None
        try:
            with _progress(name) as report:
                path = fetch(source, store, report)
        except SourceError as error:
            failed.append({"name": name, "source": source.text, "message": error.message})
            typer.echo(f"{name}: {error.message}", err=True)
            continue
        done.append({"name": name, "source": source.text, "path": str(path), "fetched": not here})
        if not as_json:
            typer.echo(f"{name}: {'already here' if here else 'fetched'}: {path}")
    if as_json:
        typer.echo(json.dumps(_document(done, failed), ensure_ascii=False, indent=2))
    if failed:
        raise typer.Exit(FAILURE)


def _document(done: list[dict[str, Any]], failed: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": 1, "kind": "pull", "ok": not failed, "data": {"models": done}, "diagnostics": failed}


def sources_of(deployment: Deployment) -> dict[str, Source]:
    """Those of the models, and of the small models that guess for them."""
    found = {}
    for name, model in deployment.models.items():
        found[name] = model.source
        if model.speculative is not None and model.speculative.draft:
            found[f"{name}.draft"] = parse(model.speculative.draft, os.getcwd(), {})
    return found


def _deployment(models: list[str], file: Path) -> Deployment | None:
    """What the file says, which is needed for names of it; sources alone are only kept where it says."""
    if not models or (file.exists() and any(not set(text) & set(":/") for text in models)):
        return read_here(file)
    try:
        return read_here(file) if file.exists() else None
    except Rejected as rejected:
        kept = Store().root
        typer.echo(f"appliance: {rejected.message}: what is fetched is kept in {kept}, whatever it says", err=True)
        return None


def _wanted(models: list[str], file: Path, deployment: Deployment | None) -> dict[str, Source]:
    """Sources by the name to show. A name of the deploy file wins over a short name of the catalogue."""
    known = sources_of(deployment) if deployment else {}
    if not models:
        return known
    catalogue = {name: listed.source for name, (_, listed) in families().catalogue.items()}
    wanted = {}
    for text in models:
        try:
            wanted[text] = known.get(text) or parse(text, os.getcwd(), catalogue, home=str(Path.home()))
        except SourceSyntax as error:
            models_there = f" (models of {file}: {', '.join(known)})" if known else ""
            typer.echo(f"appliance: {error}{models_there}", err=True)
            raise typer.Exit(USAGE) from None
    return wanted


def read_here(file: Path) -> Deployment:
    """What a deploy file says. Raises Rejected."""
    store = Store()
    return load.read(
        file,
        environ=os.environ,
        inspect=lambda source, storage: inspect_source(source, store, storage),
        memory_bytes=load.machine_memory(),
    )


@contextmanager
def _progress(name: str) -> Iterator[Report]:
    """A bar on a terminal, a line for every tenth elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _Lines(name).report
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[size]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(name, start=True, total=None, size="")

        def report(phase: str, done: int, total: int) -> None:
            size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if phase == "download" else ""
            bars.update(task, description=f"{name}: {phase}", completed=done, total=total or None, size=size)

        yield report


class _Lines:
    def __init__(self, name: str) -> None:
        self._name = name
        self._said = ("", -1)

    def report(self, phase: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        if (phase, tenth) != self._said:
            self._said = (phase, tenth)
            typer.echo(f"{self._name}: {phase} {10 * tenth}%", err=True)
