"""`appliance ps`: the models, their engines and what they are doing."""

import sys
import time
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, duration, failing, located, painted, size, table, tell

REFRESH_SECONDS = 1.0
HEAD = ("MODEL", "STATE", "PID", "REQUESTS", "WAITING", "UNLOADS IN", "MEMORY", "NOTE")
_HOME_AND_CLEAR = "\x1b[H\x1b[J"


def ps(
    file: File = DEFAULT_FILE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show models, requests and memory of a running appliance; with --json --watch one object per line."""
    admin = AdminClient(file)
    with failing("ps", as_json):
        while True:
            status = admin.get("/status")
            if as_json:
                tell("ps", status, status["last_reload"]["problems"], indent=None if watch else 2)
            else:
                clear = _HOME_AND_CLEAR if watch and sys.stdout.isatty() else ""
                typer.echo(clear + shown(status, sys.stdout.isatty()))
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(REFRESH_SECONDS)


def shown(status: dict[str, Any], terminal: bool) -> str:
    """The whole picture as text: a line about the deployment, what is wrong with it, then the models."""
    ready = "ready" if status["ready"] else "; ".join(status["not_ready"])
    head = f"{status['file']}: generation {status['generation']}, {status['in_flight']} running, {ready}"
    rows = [_row(model) for model in status["models"]]
    warnings = [painted(line, "yellow", terminal) for line in warned(status)]
    return "\n".join([head, *warnings, *_spare(status["spare"]), "", table(HEAD, rows)])


def _spare(spare: dict[str, Any] | None) -> list[str]:
    """A line about the blank engine, where one is kept."""
    if spare is None:
        return []
    if spare["pid"] is None:
        state = "none yet"
    elif spare["seconds"] is None:
        state = f"pid {spare['pid']}, starting"
    else:
        memory = f", {size(spare['taken'])}" if spare["taken"] else ""
        state = f"pid {spare['pid']}{memory}, saves the next load {spare['seconds']:.1f} s"
    saved = f"; {spare['saved']:.1f} s saved in {spare['adopted']} so far" if spare["adopted"] else ""
    return [f"spare engine: {state}{saved}"]


def warned(status: dict[str, Any]) -> list[str]:
    """What somebody who looks at the appliance has to know."""
    last, generation = status["last_reload"], status["generation"]
    lines = []
    if last["status"] == "rejected":
        lines.append(f"the file was refused, generation {generation} goes on running: {last['message']}")
        lines += [f"  {located(problem)}" for problem in last["problems"]]
    elif not status["file_matches_running"]:
        lines.append(
            f"the file is not what is running: `appliance reload` applies it, generation {generation} is kept"
        )
    if status["pending_restart"]:
        lines.append(f"needs a restart: {', '.join(status['pending_restart'])}")
    return lines


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    idle = model["idle_left"]
    return (
        model["name"],
        "leaving" if model["retired"] else model["state"],
        str(model["pid"] or "-"),
        str(model["leases"]),
        _waiting(model),
        "-" if idle is None else duration(idle),
        size(model["taken"] or model["bytes"]),
        _note(model),
    )


def _waiting(model: dict[str, Any]) -> str:
    """How many wait, and where in line their model stands."""
    return f"{model['waiting']} (#{model['position']})" if model["position"] else str(model["waiting"])


def _note(model: dict[str, Any]) -> str:
    waits = f"waiting {model['waits_for']}" if model["position"] else model["waits_for"]
    return "; ".join(note for note in (*model["drift"], waits, _condition(model)) if note)


def _condition(model: dict[str, Any]) -> str:
    said = {condition["type"]: condition for condition in model["conditions"]}
    if not said:
        return "of an earlier generation"
    if said["Degraded"]["status"]:
        return str(said["Degraded"]["message"])
    return str(said["Ready"]["message"]) if said["Ready"]["reason"] != "OnDemand" else ""
