"""`appliance status`: the whole appliance in one document, or a wait until it is as its file says."""

import sys
from datetime import datetime
from typing import Any

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.ps import warned
from appliance.cli.telling import (
    DEFAULT_FILE,
    NOT_CONVERGED,
    REJECTED,
    AsJson,
    File,
    Timeout,
    Wait,
    failing,
    note,
    painted,
    tell,
)


def status(file: File = DEFAULT_FILE, wait: Wait = False, timeout: Timeout = 300.0, as_json: AsJson = False) -> None:
    """Show the state of a running appliance. With --wait: exit 4 if it does not converge, 78 if its file is bad."""
    with failing("status", as_json):
        found = AdminClient(file).get("/status", **({"wait": "1", "timeout": str(timeout)} if wait else {}))
    code = _code(found) if wait else 0
    if as_json:
        tell("status", found, found["last_reload"]["problems"], ok=not code)
    else:
        typer.echo(_shown(found, sys.stdout.isatty()))
        if code == NOT_CONVERGED:
            note(f"appliance: not converged: {'; '.join(found['convergence']['missing'])}", "red")
    if code:
        raise typer.Exit(code)


def _code(found: dict[str, Any]) -> int:
    if found["last_reload"]["status"] == "rejected":
        return REJECTED
    return 0 if found["convergence"]["converged"] else NOT_CONVERGED


def _shown(found: dict[str, Any], terminal: bool) -> str:
    missing = found["convergence"]["missing"]
    last = found["last_reload"]
    lines = [
        f"appliance {found['version']}, process {found['pid']}, since {_time(found['started'])}",
        f"file        {found['file']}{'' if found['file_matches_running'] else ' (not what is running)'}",
        f"generation  {found['generation']}",
        f"last look   {last['status']} at {_time(last['time'])}",
        f"ready       {'yes' if found['ready'] else '; '.join(found['not_ready'])}",
        f"converged   {'; '.join(missing) or 'yes'}",
        f"running     {found['in_flight']}",
        *(painted(line, "yellow", terminal) for line in warned(found)),
    ]
    for model in found["models"]:
        lines += ["", f"{model['name']}: {'leaving' if model['retired'] else model['state']}"]
        lines += [
            painted(f"  differs from the file: {difference}", "yellow", terminal) for difference in model["drift"]
        ]
        lines += [f"  {model['waiting']} waiting: {model['waits_for']}"] if model["waits_for"] else []
        lines += [_condition(condition) for condition in model["conditions"]]
    return "\n".join(lines)


def _condition(condition: dict[str, Any]) -> str:
    said = f"{condition['reason']}{condition['message'] and ': ' + condition['message']}"
    answer = "yes" if condition["status"] else "no"
    return f"  {condition['type']:<11} {answer:<4} since {_time(condition['since'])}  {said}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
