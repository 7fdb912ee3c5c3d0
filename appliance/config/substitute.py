"""`${env:X}` and `${file:path}` within one scalar; environment and files come in as arguments."""

import re
from collections.abc import Callable, Mapping

from appliance.config.problem import Path, Problem, at
from appliance.config.source import Scalar

ReadText = Callable[[str], str]
"""The text of a file by the path as written. Raises OSError or UnicodeDecodeError."""

_REFERENCE = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_FORM = re.compile(r"(?P<kind>env|file):(?P<name>.*?)(?:(?P<how>:-|:\?)(?P<rest>.*))?", re.DOTALL)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
"""No path, name or answer holds these. The second kind is what bytes that are not UTF-8 become in an environment."""

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class _Failed(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint


def expand(scalar: Scalar, path: Path, environ: Mapping[str, str], read: ReadText) -> Scalar | Problem:
    """The scalar with its references replaced: as if unquoted, for the schema decides what it is.

    Untouched scalars come back as they are.
    """
    if "$" not in scalar.text:
        return scalar
    references = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal references
        if match[0] == "$$":
            return "$"
        references += 1
        return _value(match[1], bool(match[2]), environ, read)

    try:
        text = _REFERENCE.sub(replace, scalar.text)
    except _Failed as failed:
        return at(scalar.place, "E109", path, failed.message, failed.hint)
    if _UNUSABLE.search(text):
        return at(
            scalar.place,
            "E109",
            path,
            f"{scalar.text} gives a text with a NUL or broken character",
            "put in plain text",
        )
    if not references:
        return Scalar(text, scalar.plain, scalar.place)
    return Scalar(text, True, scalar.place, written=scalar.text)


def _value(inner: str, closed: bool, environ: Mapping[str, str], read: ReadText) -> str:
    form = _FORM.fullmatch(inner)
    if not closed or form is None or not form["name"] or "${" in inner:
        raise _Failed(
            f"`${{{inner}{'}' if closed else ''}` is no substitution",
            "write ${env:NAME}, ${env:NAME:-default} or ${file:path}; a plain dollar is $$",
        )
    of_env = form["kind"] == "env"
    found, why = _env(form["name"], environ) if of_env else _file(form["name"], read)
    if found:
        return found
    match form["how"]:
        case ":-":
            return form["rest"]
        case ":?":
            raise _Failed(form["rest"] or f"{form['name']} is needed")
    if found is None:
        raise _Failed(why, f"{'set' if of_env else 'write'} it, or give a default with :-")
    return found


def _env(name: str, environ: Mapping[str, str]) -> tuple[str | None, str]:
    if not _ENV_NAME.fullmatch(name):
        raise _Failed(f"`{name}` is no name of an environment variable")
    return environ.get(name), f"the environment variable {name} is not set"


def _file(path: str, read: ReadText) -> tuple[str | None, str]:
    try:
        return read(path).rstrip("\r\n"), ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not readable as UTF-8"
        return None, f"the file {path} cannot be read: {reason}"
