"""What is wrong with a configuration, where, and what to do: the Problem, its codes and its three renderings."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from appliance.errors import ApplianceError, Fault

Path = tuple[str | int, ...]

WIDTH = 160
"""Longer source lines are shown in part."""


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of one line: line and columns count from 1, `end` is the column after the last character."""

    file: str
    line: int
    col: int
    end: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `excerpt` is the source line as it was written, never with anything substituted into it."""

    code: str
    file: str
    line: int
    col: int
    path: str
    message: str
    hint: str = ""
    end: int = 0
    excerpt: str = field(default="", compare=False)

    @property
    def severity(self) -> Literal["error", "warning"]:
        return "warning" if self.code.startswith("W") else "error"


class Rejected(ApplianceError):
    """A configuration that is not applied; `problems` are all of them, sorted by place.

    `files` were read or looked for, `digest` is that of their contents: there is no use in reading them again before
    it changes.
    """

    status: ClassVar[int] = 422
    code: ClassVar[str] = "config_rejected"
    fault: ClassVar[Fault] = Fault.CONFIG
    exit_code: ClassVar[int] = 78

    def __init__(self, problems: Iterable[Problem], files: tuple[str, ...] = (), digest: str = "") -> None:
        self.problems = in_order(problems)
        self.files = files
        self.digest = digest
        count = len(self.problems)
        super().__init__(f"{count} problem{'' if count == 1 else 's'} in {self.problems[0].file}")

    def __str__(self) -> str:
        return human(self.problems)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sorted by place; what was found twice is said once."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.file, p.line, p.col, p.code, p.path)))


def at(place: Place, code: str, path: Path, message: str, hint: str = "") -> Problem:
    """A Problem at a place; excerpts are added by whoever holds the text."""
    return Problem(code, place.file, place.line, place.col, dotted(path), message, hint, place.end)


def dotted(path: Path) -> str:
    """`models.big.sampling.stop[0]`; a key that would read as several is quoted."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            shown = (
                json.dumps(part, ensure_ascii=False)
                if set(part) & set('. []"') or not (part and part.isprintable())
                else part
            )
            out += f".{shown}" if out else shown
    return out


def human(problems: Iterable[Problem]) -> str:
    """Lines for a person: place, code, path and message; the source line; a caret under the fault."""
    return "\n".join(line for problem in problems for line in _human(problem))


def located(p: Problem) -> str:
    """One line: place, code, path and message."""
    return f"{p.file}:{p.line}:{p.col} {p.severity}[{p.code}] {_said(p)}"


def _human(p: Problem) -> Iterable[str]:
    yield located(p)
    if p.excerpt:
        start = max(0, p.col - WIDTH // 2) if len(p.excerpt) > WIDTH else 0
        shown = p.excerpt[start : start + WIDTH]
        # A tab in the source must stay one, or the caret stands in the wrong column.
        lead = "".join("\t" if c == "\t" else " " for c in shown[: p.col - 1 - start])
        yield f"{p.line:>5} | {shown}"
        yield f"      | {lead}{'^' * max(1, min(p.end - p.col, len(shown) - len(lead)))}"


def _said(p: Problem) -> str:
    text = f"{p.path}: {p.message}" if p.path else p.message
    return f"{text}; {p.hint}" if p.hint else text


def as_data(problem: Problem) -> dict[str, Any]:
    """One problem as plain data, for `--json`."""
    return {
        "code": problem.code,
        "severity": problem.severity,
        "file": problem.file,
        "line": problem.line,
        "column": problem.col,
        "end_column": max(problem.end, problem.col + 1),
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    }


def github(problems: Iterable[Problem]) -> str:
    """Workflow commands that annotate a pull request."""
    return "\n".join(
        f"::{p.severity} file={_property(p.file)},line={p.line},col={p.col},"
        f"endColumn={max(p.end, p.col + 1)},title={p.code}::{_data(_said(p))}"
        for p in problems
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
