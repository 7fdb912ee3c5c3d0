"""A draft as the text of a deploy file that validates: what this version lacks, or refuses, is a comment."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Set
from typing import Any

from appliance.config.check import check
from appliance.config.problem import Problem, dotted
from appliance.config.schema import Schema
from appliance.config.source import core, parse
from appliance.convert.draft import CannotConvert, Draft, Path
from appliance.convert.values import ENV_CLOSE, ENV_OPEN

MODELINE = "# yaml-language-server: $schema=./.appliance/deploy.schema.json"
LATER = "not available in this version:"
WIDTH = 110

BLOCKS = (
    "version", "include", "server", "security", "memory", "engine", "defaults", "profiles", "models", "aliases",
    "routing", "cache", "storage", "hooks", "observability",
)  # fmt: skip
WHOLE = ("kind",)
"""Keys of a model without which it is another model: where one is not available, the model is not."""

_PLAIN = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./:@+~=%-]*")

Tree = dict[str, Any]
Missing = Set[str]
"""Dotted paths of keys that are not available."""


UNAVAILABLE = "E110"
"""The problem a key has whose machinery this version lacks."""


def write(draft: Draft, schema: Schema) -> tuple[str, tuple[str, ...]]:
    """The deploy file of a draft, and the paths of its keys that are not available in this version.

    Takes out of the draft, and notes as lost, what the language does not allow.

    Raises CannotConvert where no model is left.
    """
    missing: set[str] = set()
    while True:
        _models_of_another_kind(draft, missing)
        if not any(path[0] == "models" and path[-1] == "source" for path in draft.values):
            raise draft.nothing()
        written = _written(draft, frozenset(missing))
        tree, problems = parse(written, "deploy.yaml")
        if tree is not None:
            problems += check(tree, schema, lambda scalar, _: scalar)[1]
        if not problems:
            return written, tuple(sorted(missing))
        absent = {problem.path for problem in problems if problem.code == UNAVAILABLE}
        if not absent - missing:
            _take_out(draft, problems)
        missing |= absent


def _take_out(draft: Draft, problems: list[Problem]) -> None:
    before = len(draft.values)
    for problem in problems:
        for path in list(draft.values):
            shown = dotted(path)
            if shown == problem.path or problem.path.startswith((f"{shown}.", f"{shown}[")):
                hint = f"; {problem.hint}" if problem.hint else ""
                is_kind = path[0] == "models" and path[-1] in WHOLE
                said = draft.leave_out if is_kind else draft.lose
                said(draft.origins[path], f"{problem.message}{hint}")
                draft.drop(path[:2] if is_kind else path)
    if len(draft.values) == before:
        raise CannotConvert(f"what was converted does not validate: {problems[0].path}: {problems[0].message}")


def _models_of_another_kind(draft: Draft, missing: Missing) -> None:
    """Without its kind a model would be served as another one: it is left out, with the names it had."""
    for name in draft.names("models"):
        for key in WHOLE:
            path = ("models", name, key)
            if draft.values.get(path, "text") == "text":
                draft.drop(path)
            elif dotted(path) in missing:
                draft.leave_out(f"models.{name}", f"{LATER} {key}: {draft.values[path]}")
                draft.drop(("models", name))
    kept = draft.names("models")
    for alias in draft.names("aliases"):
        target = draft.values.get(("aliases", alias), draft.values.get(("aliases", alias, "model")))
        if target not in kept:
            draft.drop(("aliases", alias))


def _written(draft: Draft, missing: Missing) -> str:
    tree: Tree = {}
    for path, value in draft.values.items():
        at = tree
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    blocks, later = [list(_head(draft)), ["version: 1"]], [f"# {LATER}"]
    for name in sorted(tree, key=BLOCKS.index):
        block = {name: tree[name]}
        if _is_missing(tree[name], (name,), missing):
            later += (f"# {line}" for line in _block(block, (), "", frozenset()))
        else:
            blocks.append(list(_block(block, (), "", missing)))
    if later[1:]:
        blocks.append(later)
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _head(draft: Draft) -> Iterator[str]:
    yield MODELINE
    yield f"# Converted from {draft.made_from} by `appliance init --from`."
    if draft.lost:
        yield "# Not carried over, or not all of it:"
    for lost in draft.lost:
        wrapped = textwrap.wrap(str(lost), WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        yield from (f"# {line}" for line in wrapped)


def _block(tree: Tree, path: Path, indent: str, missing: Missing) -> Iterator[str]:
    """The keys of an object; those that are missing last and as comments."""
    later: list[str] = []
    for key, value in tree.items():
        here = (*path, key)
        if _is_missing(value, here, missing):
            later += _block({key: value}, path, "", frozenset())
        elif isinstance(value, dict) and (len(here) < 3 or not _fits(value, here, indent, missing)):
            yield f"{indent}{_scalar(key)}:"
            yield from _block(value, here, f"{indent}  ", missing)
        else:
            yield f"{indent}{_scalar(key)}: {_flow(value)}"
    if later:
        yield f"{indent}# {LATER}"
        yield from (f"{indent}# {line}" for line in later)


def _fits(value: Tree, path: Path, indent: str, missing: Missing) -> bool:
    """Whether an object may stand on one line."""
    whole = not any(_is_missing(below, (*path, key), missing) for key, below in value.items())
    return whole and len(indent) + len(path[-1]) + len(_flow(value)) < WIDTH


def _is_missing(value: Any, path: Path, missing: Missing) -> bool:
    """Whether a key, or all that stands under it, is not available."""
    if dotted(path) in missing:
        return True
    below = value.items() if isinstance(value, dict) else ()
    return bool(below) and all(_is_missing(v, (*path, key), missing) for key, v in below)


def _flow(value: Any) -> str:
    match value:
        case Mapping():
            return "{" + ", ".join(f"{_scalar(key)}: {_flow(below)}" for key, below in value.items()) + "}"
        case list():
            return "[" + ", ".join(_flow(item) for item in value) + "]"
        case bool() | None | int() | float():
            return json.dumps(value)
    return _scalar(value)


def _scalar(value: str) -> str:
    """A text, plain where it reads back as itself. Dollars are doubled, or they would be substitutions."""
    plain = value.replace("$", "$$").replace(ENV_OPEN, "${env:").replace(ENV_CLOSE, "}")
    if _PLAIN.fullmatch(plain) and not plain.endswith(":") and isinstance(core(plain), str):
        return plain
    return json.dumps(plain, ensure_ascii=False)
