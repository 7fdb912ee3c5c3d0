"""`appliance plan`: what a deploy file would change, before it changes anything."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.init import CannotWrite
from appliance.cli.offline import document, examine_or_exit
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing
from appliance.config.deployment import ModelSpec
from appliance.config.diff import diff
from appliance.config.operations import Storage
from appliance.config.render import Estimate, as_data, render, weigh
from appliance.control import demand, survey
from appliance.control.machine import Machine
from appliance.control.sizes import Sizes
from appliance.control.state_dir import state_of
from appliance.models.store import Store

CHANGES = 5


def plan(
    file: File = DEFAULT_FILE,
    against: Annotated[
        Path | None, typer.Option(help="Compare with another deploy file, not with what is running.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the plan to a file, for `reload --plan`.")] = None,
    detailed: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 5 if there are changes, 0 if there are none.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a deploy file would change: settings, engines and memory. Exit 78 if it is not valid."""
    with failing("plan", as_json):
        if out is not None and out.resolve() in {each.resolve() for each in (file, against) if each}:
            raise CannotWrite(f"{out} is a deploy file; write the plan elsewhere: --out plan.json")
    data, text = _between(against, file, as_json) if against else _of_running(file, as_json)
    whole = document("plan", data, [])
    if out is not None:
        with failing("plan", as_json):
            _write(out, whole)
    typer.echo(whole if as_json else text)
    if detailed and not data["empty"]:
        raise typer.Exit(CHANGES)


def _write(out: Path, whole: str) -> None:
    """Raises CannotWrite."""
    try:
        out.write_text(f"{whole}\n", encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"{out} cannot be written: {error.strerror}; name another file with --out") from None


def _of_running(file: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    """The plan of the appliance that serves the file, made by itself."""
    with failing("plan", as_json):
        answer = AdminClient(file).post("/config", dry_run="1")
    return answer, answer["text"]


def _between(old_file: Path, new_file: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    old, new = (examine_or_exit(file, "plan", as_json).deployment for file in (old_file, new_file))
    found = diff(old, new)
    memory = weigh(old, new, _estimate(new_file, new.engine.blas, new.storage), spare=demand.spare_bytes(new))
    sides = {
        side: {"file": str(file), "digest": deployment.digest}
        for side, file, deployment in (("old", old_file, old), ("new", new_file, new))
    }
    return {**sides, **as_data(found, memory)}, render(found, memory)


def _estimate(file: Path, blas: str, storage: Storage) -> Estimate:
    """What the appliance on this file would plan with."""
    machine, sizes = Machine.of_this(os.environ, ("warning", "console")), Sizes(state_of(file).sizes)
    store = Store().within(storage)

    def estimate(model: ModelSpec) -> int | None:
        place = survey.place([model], blas, store, machine, sizes)
        return place.need if place.known or model.source.kind == "fake" else None

    return estimate
