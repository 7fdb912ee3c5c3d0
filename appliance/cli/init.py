"""`appliance init`: a first deploy file, fitted to this machine or converted from another tool's configuration."""

import os
import platform
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.recognising import families
from appliance.config import load
from appliance.config.units import show_bytes
from appliance.convert.kinds import KINDS, Converted, from_command, from_file
from appliance.convert.source import Known
from appliance.convert.starter import choose, starter
from appliance.errors import ApplianceError, Fault

USAGE = 2
SCHEMA = Path(".appliance/deploy.schema.json")
"""Where the editors' schema lies beside a deploy file."""


class CannotWrite(ApplianceError):
    """A file that is not written: it exists, or its directory does not let us."""

    code = "cannot_write"
    fault = Fault.CONFIG
    exit_code = 73


def init(
    given: Annotated[
        list[str] | None, typer.Argument(help="With --from: a configuration file, or -- and a command line.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Where to write; default: deploy.yaml, or stdout with --from.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    convert: Annotated[
        bool, typer.Option("--from", help="Convert what follows: --from PATH, or --from -- COMMAND LINE.")
    ] = False,
    kind: Annotated[str | None, typer.Option(help=f"With --from: what it is ({', '.join(KINDS)}).")] = None,
) -> None:
    """Write a commented deploy.yaml for this machine, or convert another tool's configuration or command line."""
    if convert:
        _convert(given or [], file, force, kind)
        return
    if given or kind:
        typer.echo("appliance: a configuration to convert follows --from", err=True)
        raise typer.Exit(USAGE)
    file = file or Path("deploy.yaml")
    memory, apple = load.machine_memory(), (platform.system(), platform.machine()) == ("Darwin", "arm64")
    choice = choose(memory, apple)
    _write(file, starter(choice, show_bytes(memory)), force)
    typer.echo(f"wrote {file}: {choice.model}, {choice.why}; its schema for editors is {_schema_of(file)}")
    _next(file)


def _convert(given: list[str], file: Path | None, force: bool, kind: str | None) -> None:
    if not given or kind not in (None, *KINDS):
        known = f"kinds are {', '.join(KINDS)}" if given else "write --from PATH, or --from -- COMMAND LINE"
        typer.echo(f"appliance: {known}", err=True)
        raise typer.Exit(USAGE)
    converted = _converted(given, kind)
    if file is None:
        typer.echo(converted.text, nl=False)
    else:
        _write(file, converted.text, force)
    _report(converted)
    if file is not None:
        _next(file)


def _converted(given: list[str], kind: str | None) -> Converted:
    path = Path(given[0]).expanduser()
    is_file = len(given) == 1 and path.is_file()
    base = path.parent if is_file else Path()
    known = Known(load.schema("deploy"), families().catalogue, lambda text: (base / text).exists())
    if not is_file:
        if len(given) == 1 and " " not in given[0]:
            raise CannotWrite(f"there is no file {given[0]}; a command line follows `--from --`")
        return from_command(given, kind, known)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotWrite(f"{path} cannot be read: {error}") from None
    return from_file(text, str(path), kind, known)


def _report(converted: Converted) -> None:
    """What is not in the file, on stderr."""
    for lost in converted.lost:
        typer.echo(f"not carried over: {lost}", err=True)
    for path in converted.later:
        typer.echo(f"not available in this version, kept as a comment: {path}", err=True)
    if not converted.lost and not converted.later:
        typer.echo(f"everything of {converted.made_from} was carried over", err=True)


def _schema_of(file: Path) -> Path:
    return file.parent / SCHEMA


def _write(file: Path, text: str, force: bool) -> None:
    """The deploy file and its schema. Raises CannotWrite."""
    schema = _schema_of(file)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
        schema.parent.mkdir(exist_ok=True)
        schema.write_text(load.schema_text("deploy"), encoding="utf-8")
    except FileExistsError:
        raise CannotWrite(f"{file} exists; --force overwrites it, --file writes another") from None
    except OSError as error:
        raise CannotWrite(f"{error.filename or file} cannot be written: {os.strerror(error.errno or 0)}") from None


def _next(file: Path) -> None:
    option = "" if file == Path("deploy.yaml") else f" -f {file}"
    typer.echo(f"next: appliance up{option}")
