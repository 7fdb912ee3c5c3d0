"""`appliance reload` and `appliance rollback`: have the appliance apply something, and say what came of it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.telling import DEFAULT_FILE, NOT_CONVERGED, AsJson, File, Timeout, Wait, failing, note, tell
from appliance.errors import ApplianceError


class NotAPlan(ApplianceError):
    exit_code = 2


def reload(
    file: File = DEFAULT_FILE,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Apply exactly this plan of `appliance plan --out`, or exit 9.")
    ] = None,
    wait: Wait = False,
    timeout: Timeout = 300.0,
    as_json: AsJson = False,
) -> None:
    """Make the running appliance read its file now; exit 78 if the file is rejected."""
    with failing("reload", as_json):
        body = {"plan": _plan_id(plan)} if plan else None
        done = AdminClient(file).post("/reload", body, **_waiting(wait, timeout))
    _finish("reload", done, as_json)


def rollback(
    generation: Annotated[
        int, typer.Argument(help="The number of a kept generation; `appliance history` lists them.")
    ],
    file: File = DEFAULT_FILE,
    wait: Wait = False,
    timeout: Timeout = 300.0,
    as_json: AsJson = False,
) -> None:
    """Run an earlier generation again, as a new one. The file stays as it is, and counts again when it is saved."""
    with failing("rollback", as_json):
        done = AdminClient(file).post("/rollback", {"generation": generation}, **_waiting(wait, timeout))
    _finish("rollback", done, as_json)


def _waiting(wait: bool, timeout: float) -> dict[str, str]:
    return {"wait": "1", "timeout": str(timeout)} if wait else {}


def _finish(kind: str, done: dict[str, Any], as_json: bool) -> None:
    reload, convergence = done["reload"], done["convergence"]
    missing = convergence["missing"] if convergence else []
    if as_json:
        tell(kind, done, [{"code": "not_converged", "message": text} for text in missing], ok=not missing)
    else:
        typer.echo(f"{reload['status']}: generation {reload['generation']}")
        if missing:
            note(f"appliance: applied, but not converged: {'; '.join(missing)}", "red")
            note("`appliance ps` shows how far it is")
    if missing:
        raise typer.Exit(NOT_CONVERGED)


def _plan_id(path: Path) -> str:
    """Raises NotAPlan."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        found = whole.get("data", whole)["id"]
    except OSError as error:
        raise NotAPlan(
            f"{path} cannot be read: {error.strerror}; write a plan with `appliance plan --out plan.json`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        found = None
    if not isinstance(found, str):
        raise NotAPlan(f"{path} holds no plan; write one with `appliance plan --out plan.json`")
    return found
