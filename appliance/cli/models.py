"""`appliance models …`: what is known of models, in this file and on this machine. Offline but for `verify`."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.catalogue import search, verify
from appliance.cli.intact_models import check
from appliance.cli.kept_models import ls, rm
from appliance.cli.offline import examine
from appliance.cli.reading import read
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, note, size, tell
from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.problem import Rejected
from appliance.config.units import show_bytes
from appliance.control import demand, footprint, survey
from appliance.control.ledger import Ledger, ledger
from appliance.control.machine import Machine
from appliance.control.sizes import Sizes
from appliance.control.state_dir import state_of
from appliance.errors import BadRequest, SourceError
from appliance.models.inspect import inspect
from appliance.models.store import Store

FAILURE = 1

models = typer.Typer(
    help="Find models, estimate their memory, and manage those that were downloaded.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
models.command()(search)
models.command()(verify)
models.command()(check)
models.command()(ls)
models.command()(rm)


@models.command()
def estimate(
    model: Annotated[str, typer.Argument(help="A model of the deploy file, or a source like ./directory.")],
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Estimate a model's memory, number by number, and say whether it fits. Exit 1 if it does not."""
    with failing("estimate", as_json):
        deployment, spec = _model(model, file)
        if spec.reckoned is not None and Store().within(deployment.storage).locate(spec.source) is None:
            _reckoned(deployment, spec, spec.reckoned, as_json)
            return
        found, path = _ledger(deployment, spec, file)
        if as_json:
            data = {"name": spec.name, "source": spec.source.text, "path": str(path), **asdict(found)}
            tell("estimate", data, ok=not found.refusal)
        else:
            typer.echo(_shown(spec, found))
    if found.refusal:
        raise typer.Exit(FAILURE)


def _reckoned(deployment: Deployment, spec: ModelSpec, need: int, as_json: bool) -> None:
    """What the catalogue says of a model whose files are not here. Exit 1 if that does not fit."""
    room = deployment.memory.budget - deployment.memory.kv_reserve
    fits = need <= room
    if as_json:
        data = {"name": spec.name, "source": spec.source.text, "path": None, "need": need, "room": room}
        tell("estimate", data, ok=fits)
    else:
        said = "it fits" if fits else "it does not fit"
        typer.echo(f"{spec.name}: about {size(need)} by the catalogue; models may take {size(room)}: {said}")
        note(f"its files are not here; after `appliance pull {spec.source.text}` this is exact")
    if not fits:
        raise typer.Exit(FAILURE)


def _model(text: str, file: Path) -> tuple[Deployment, ModelSpec]:
    """A name of the deploy file, or else a source as a model of its own with everything by default."""
    deployment = examine(file).deployment if file.exists() else None
    if deployment is not None and text in deployment.models:
        return deployment, deployment.models[text]
    try:
        alone = read(Path.cwd() / DEFAULT_FILE, document=_document(text))
    except Rejected as rejected:
        first = rejected.problems[0]
        known = f"; {file} has {', '.join(deployment.models)}" if deployment else ""
        raise BadRequest(f"{text!r}: {first.message}{first.hint and f'; {first.hint}'}{known}") from None
    memory = deployment.memory if deployment else alone.memory
    [spec] = alone.models.values()
    return replace(alone, memory=memory), replace(spec, name=text)


def _document(source: str) -> bytes:
    quoted = source.replace("'", "''")
    return f"version: 1\nmodels:\n  model:\n    source: '{quoted}'\n".encode()


def _ledger(deployment: Deployment, spec: ModelSpec, file: Path) -> tuple[Ledger, Path]:
    machine, store = Machine.of_this(os.environ, ("warning", "console")), Store().within(deployment.storage)
    path = store.locate(spec.source)
    if path is None or spec.source.kind == "fake":
        why = "a script has no weights" if path else f"its files are not here; `appliance pull {spec.source.text}`"
        raise SourceError(f"{spec.name} cannot be estimated: {why}")
    expected = footprint.expect(path, spec.dtype, rows=spec.concurrency, cpu=machine.cpu)
    sizes = Sizes(state_of(file).sizes)
    place = survey.place([spec], deployment.engine.blas, store, machine, sizes)
    own = inspect(path).context
    context = min(spec.context, own) if own else spec.context
    policy = demand.terms(deployment).policy
    return ledger(spec.name, expected, place, policy, context=context, concurrency=spec.concurrency), path


_MEASURED = {True: "process and weights when it was loaded last", False: "never loaded by this file's appliance"}
_NEEDED = {True: "measured, and a step", False: "weights, process and a step"}


def _shown(spec: ModelSpec, found: Ledger) -> str:
    measured = found.measured is not None
    rows = [
        ("weights", size(found.weights), "as they are held in memory"),
        ("process", size(found.base), "before any weights"),
        ("measured", "-" if found.measured is None else size(found.measured), _MEASURED[measured]),
        ("a step", size(found.activations), f"the largest one of {found.concurrency} rows"),
        *(
            [("a state", show_bytes(found.state), f"of a row, however short; {found.concurrency} of them are needed")]
            if found.state
            else []
        ),
        *([("adapters", size(found.adapters), "read when they are first asked for")] if found.adapters else []),
        ("needed", size(found.need), _NEEDED[measured] + (", and the states of its rows" if found.state else "")),
        ("a token", show_bytes(found.token), found.attention),
        ("a row", size(found.row), f"of {found.context} tokens; {found.concurrency} of them take {size(found.rows)}"),
        ("budget", size(found.budget), f"{size(found.kv_reserve)} of it are kept for rows, memory.kv_reserve"),
        *([("spare", size(found.spare), "of it is the blank engine's, engine.spare")] if found.spare else []),
        ("for models", size(found.room), "so much may models take together"),
        ("left", size(found.left), "for rows and prefixes when it is alone in memory"),
    ]
    lines = [f"{spec.name}: {spec.source.text}"]
    lines += [f"  {name:<11}{number:>10}  {said}".rstrip() for name, number, said in rows]
    return "\n".join([*lines, f"it does not fit: {found.refusal}" if found.refusal else "it fits"])
