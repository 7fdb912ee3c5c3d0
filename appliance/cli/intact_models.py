"""`appliance models check`: whether the files of downloaded models are whole."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.kept_models import of_file, parsed
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, tell
from appliance.config.deployment import Source
from appliance.config.sources import in_full
from appliance.errors import BadRequest
from appliance.models.fetched import fetched
from appliance.models.intact import Looked, looked
from appliance.models.store import Store

FAILURE = 1


@dataclass(frozen=True, slots=True)
class Checked:
    """One model's files."""

    name: str
    files: tuple[Looked, ...]

    @property
    def wrong(self) -> list[Looked]:
        return [file for file in self.files if file.problem]


def check(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of the deploy file, or sources; default: all downloaded.")
    ] = None,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Compare downloaded files with the digests the hub gave, without asking it. Exit 1 if one differs."""
    with failing("check", as_json):
        store, named = of_file(file)
        sources = [named.get(text) or parsed(text) for text in models or ()]
        known = [model.sources[0] for model in fetched(store)] if not models else sources
        found = [_checked(source, store) for source in known]
    wrong = [each for each in found if each.wrong]
    if as_json:
        tell("check", [asdict(each) for each in found], ok=not wrong)
    else:
        typer.echo("\n".join(line for each in found for line in _lines(each)) or "none was fetched")
    if wrong:
        raise typer.Exit(FAILURE)


def _checked(source: Source, store: Store) -> Checked:
    places = list(_places(source, store))
    if source.kind == "fake":
        raise BadRequest(f"{source.text} is a script: it has no weights to check")
    if not places:
        raise BadRequest(f"{in_full(source)}: its files are not here; `appliance pull {in_full(source)}`")
    return Checked(in_full(source), tuple(file for place in places for file in looked(place)))


def _places(source: Source, store: Store) -> Iterator[Path]:
    """The directories with its files, whole or not."""
    if source.kind == "hf" and (directory := store.directory(source)) is not None:
        yield from sorted(path for path in directory.glob("snapshots/*") if path.is_dir())
    elif (path := Path(source.ref) if source.kind == "path" else store.locate(source)) is not None and path.is_dir():
        yield path


def _lines(model: Checked) -> Iterator[str]:
    for file in model.wrong:
        yield f"{model.name}: {file.name} {file.problem}"
    if model.wrong:
        yield f"fetch it again: `appliance models rm {model.name}`, then `appliance pull {model.name}`"
        return
    compared = sum(file.compared for file in model.files)
    without = f", {len(model.files) - compared} without a digest" if compared < len(model.files) else ""
    yield f"{model.name}: {compared} files as the hub sent them{without}"
