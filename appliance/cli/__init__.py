"""The command line: which word runs which function. A command is imported only when it is asked for."""

import os
import sys
from importlib import import_module

COMMANDS: dict[str, str] = {
    "init": "appliance.cli.init",
    "up": "appliance.cli.up",
    "validate": "appliance.cli.validate",
    "config": "appliance.cli.config",
    "plan": "appliance.cli.plan",
    "schema": "appliance.cli.schema",
    "pull": "appliance.cli.pull",
    "models": "appliance.cli.models",
    "profiles": "appliance.cli.profiles",
    "ps": "appliance.cli.ps",
    "status": "appliance.cli.status",
    "reload": "appliance.cli.reload",
    "rollback": "appliance.cli.reload",
    "history": "appliance.cli.history",
    "diff": "appliance.cli.history",
    "load": "appliance.cli.residency",
    "unload": "appliance.cli.residency",
    "pin": "appliance.cli.residency",
    "events": "appliance.cli.events",
    "keys": "appliance.cli.keys",
    "usage": "appliance.cli.usage",
    "route": "appliance.cli.route",
    "down": "appliance.cli.down",
    "version": "appliance.cli.version",
}
"""Command to module; the function, or the group of commands, has the command's name."""

FAILURE, INTERRUPTED = 1, 130


def main() -> None:
    """The console script: run a command, and end with its exit code."""
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Nothing can be written any more, nor need Python try it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = code or _cannot(error)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Errors of ours are printed to stderr, one line and its fix each."""
    import typer

    from appliance.config.problem import Rejected
    from appliance.errors import ApplianceError

    asked = arguments[0] if arguments and arguments[0] in COMMANDS else None
    app = typer.Typer(
        no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None
    )
    app.callback()(_describe)
    for name in [asked] if asked else COMMANDS:
        found = getattr(import_module(COMMANDS[name]), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    try:
        code = app(arguments, prog_name="appliance", standalone_mode=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILURE if ended.code else 0
    except Rejected as rejected:
        print(rejected, file=sys.stderr)
        return rejected.exit_code
    except ApplianceError as error:
        print(f"appliance: {error}", file=sys.stderr)
        return int(getattr(error, "exit_code", FAILURE))
    except OSError as error:
        return _cannot(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(code or 0)


def _cannot(error: OSError) -> int:
    """Say what the system refused, of a file or of the output."""
    if not isinstance(error, BrokenPipeError):
        print(f"appliance: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
    return FAILURE


def _describe() -> None:
    """A declarative serving appliance for language models on MLX: one deploy.yaml is the whole machine."""
