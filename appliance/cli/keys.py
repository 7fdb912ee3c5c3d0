"""`appliance keys`: a new key for the deploy file, those that are in it, one to be refused from now on."""

import os
import re
import secrets
import tempfile
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.admin_client import AdminClient, NotReachable
from appliance.cli.offline import document, examine_or_exit
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, note, table, tell
from appliance.config import expire
from appliance.config.access import Key
from appliance.config.suggest import did_you_mean
from appliance.config.units import show_rate, show_tokens
from appliance.control.clock import now_in
from appliance.errors import ApplianceError, Fault

USAGE = 2
SECRET_BYTES = 24
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Action(StrEnum):
    NEW = "new"
    LS = "ls"
    REVOKE = "revoke"


class NoSuchKey(ApplianceError):
    """The deploy file has no key of this name."""

    code = "unknown_key"
    fault = Fault.CLIENT


class CannotWrite(ApplianceError):
    """A key that is not written: one of its name exists, or its directory or its deploy file does not let us."""

    code = "cannot_write"
    fault = Fault.CONFIG
    exit_code = 73


def keys(
    action: Annotated[
        Action,
        typer.Argument(help="`new NAME` creates a key, `revoke NAME` revokes one, `ls` lists all."),
    ],
    name: Annotated[str | None, typer.Argument(help="With `new` and `revoke`: the name of the key.")] = None,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Create, list or revoke API keys. A secret is shown only once, when it is created."""
    if action is Action.LS:
        _list(file, as_json)
        return
    if name is None or not _NAME.fullmatch(name):
        typer.echo(f"appliance: write `keys {action} NAME`, a name of letters, digits and . _ -", err=True)
        raise typer.Exit(USAGE)
    if action is Action.REVOKE:
        _revoke(file, name, as_json)
    else:
        _new(name, as_json)


def _new(name: str, as_json: bool) -> None:
    secret = f"sk-{secrets.token_urlsafe(SECRET_BYTES)}"
    path = _directory() / name
    _write(path, secret)
    line = f'{name}: {{secret: "${{file:{_short(path)}}}"}}'
    if as_json:
        data = {"name": name, "secret": secret, "file": str(path), "yaml": line}
        typer.echo(document("key", data, []))
        return
    typer.echo(secret)
    typer.echo(f"kept in {path}; it is not shown again. Add it to the deploy file:\n", err=True)
    typer.echo(f"security:\n  keys:\n    {line}\n", err=True)


def _write(path: Path, secret: str) -> None:
    """Only this user can read it. Raises CannotWrite."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as out:
                out.write(f"{secret}\n")
        except OSError:
            # Half a secret is none, and would keep its name from being used.
            path.unlink()
            raise
    except FileExistsError:
        raise CannotWrite(f"{path} exists; delete it first, or choose another name") from None
    except OSError as error:
        raise CannotWrite(f"{error.filename or path} cannot be written: {error.strerror}") from None


def _revoke(file: Path, name: str, as_json: bool) -> None:
    """It expires today: what names it stays valid, and its clients are told why they are refused."""
    deployment = examine_or_exit(file, "key", as_json).deployment
    keys, today = deployment.security.keys, now_in(deployment).date()
    with failing("key", as_json):
        if name not in keys:
            raise NoSuchKey(f"there is no key {name} in {file}; {did_you_mean(name, keys) or '`keys ls` lists them'}")
        if (before := keys[name].expires) is None or before > today:
            _expire(deployment.files, name, today)
            before = today
        runs = _reload(file)
    if as_json:
        tell("key", {"name": name, "expires": before.isoformat(), "applied": runs})
        return
    typer.echo(f"{name} is refused from now on" if runs else f"{name} is refused from the next start on")
    note(f"it expires on {before.isoformat()} in the deploy file; delete it there when nothing names it any more")


def _expire(files: Iterable[str], name: str, day: date) -> None:
    """Raises CannotWrite."""
    for path in map(Path, files):
        try:
            text = path.read_bytes().decode("utf-8-sig")
            if expire.key_in(text, str(path), name) is None:
                continue
            _replace(path, expire.expired(text, str(path), name, day))
        except OSError as error:
            raise CannotWrite(f"{path} cannot be written: {error.strerror}") from None
        except expire.NotEditable as reason:
            raise CannotWrite(f"{reason}; write `expires: {day.isoformat()}` into it in {path}") from None
        except UnicodeDecodeError:  # a secret's file may hold anything
            continue
        return
    raise CannotWrite(f"no file says what the key {name} may; write `expires: {day.isoformat()}` into it")


def _replace(path: Path, text: str) -> None:
    """The whole file at once, behind its symbolic links, with the rights it had. Raises OSError."""
    real = path.resolve()
    with tempfile.NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as part:
        part.write(text.encode())
    try:
        os.chmod(part.name, real.stat().st_mode)
        os.replace(part.name, real)
    except OSError:
        os.unlink(part.name)
        raise


def _reload(file: Path) -> bool:
    """Whether an appliance serves the file, and has taken it up. Raises Refused."""
    try:
        AdminClient(file).post("/reload")
    except NotReachable:
        return False
    return True


def _directory() -> Path:
    """`$APPLIANCE_HOME/keys`, else `~/.appliance/keys`."""
    home = os.environ.get("APPLIANCE_HOME")
    return (Path(home).absolute() if home else Path.home() / ".appliance") / "keys"


def _short(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _list(file: Path, as_json: bool) -> None:
    found = examine_or_exit(file, "keys", as_json).deployment.security.keys.values()
    if as_json:
        typer.echo(document("keys", [_data(key) for key in found], []))
        return
    if not found:
        typer.echo(f"there are no keys in {file}; `appliance keys new NAME` makes one", err=True)
        return
    typer.echo(table(("NAME", "ALLOW", "LIMITS", "PRIORITY", "EXPIRES"), [_row(key) for key in found]))


def _row(key: Key) -> tuple[str, ...]:
    limits = ", ".join(f"{name} {value}" for name, value in _limits(key).items())
    return key.name, " ".join(key.allow), limits or "none", key.priority, _expires(key) or "never"


def _data(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "allow": list(key.allow),
        "limits": _limits(key),
        "priority": key.priority,
        "expires": _expires(key),
    }


def _expires(key: Key) -> str | None:
    return key.expires.isoformat() if key.expires else None


def _limits(key: Key) -> dict[str, str]:
    limits = key.limits
    said = {
        "requests": show_rate(limits.requests) if limits.requests else None,
        "tokens": show_rate(limits.tokens) if limits.tokens else None,
        "concurrent": str(limits.concurrent) if limits.concurrent else None,
        "daily_tokens": show_tokens(limits.daily_tokens) if limits.daily_tokens else None,
    }
    return {name: value for name, value in said.items() if value is not None}
