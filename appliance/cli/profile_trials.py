"""`appliance profiles test` and `new`: a family tried on a model's template, and one to begin with."""

import os
import re
from typing import Annotated, Any

import typer

from appliance.cli.agreeing import Verdict, fitting, verdict
from appliance.cli.recognising import Subject, families, family_of, subjects
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, note, tell
from appliance.config import load
from appliance.config.deployment import Family
from appliance.config.family_draft import draft, texts
from appliance.errors import BadRequest

FAILURE, CANNOT_WRITE = 1, 73
SCHEMA = "family.schema.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)

What = Annotated[
    str | None,
    typer.Argument(help="A model of the deploy file, a source, a chat template or a directory of them; all models."),
]


def test(
    what: What = None,
    file: File = DEFAULT_FILE,
    family: Annotated[str | None, typer.Option(help="Try this family instead of its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Render a tool call and a thought with a model's own template, and parse them back. Exit 1 if any differs."""
    with failing("profiles test", as_json):
        forced = family_of(family, families()).family if family else None
        found = [verdict(subject, forced) for subject in subjects(what, file)]
    wrong = [each for each in found if each.mismatches]
    if as_json:
        tell("profiles test", [_verdict(each) for each in found], ok=not wrong)
    else:
        typer.echo("\n".join(_said(each) for each in found))
    if wrong:
        raise typer.Exit(FAILURE)


def _verdict(found: Verdict) -> dict[str, Any]:
    family = found.family
    return {
        "model": found.name,
        "family": family.name,
        "dialects": {"tools": family.tool_dialect, "reasoning": family.reasoning_dialect},
        "tested": found.tested,
        "mismatches": list(found.mismatches),
    }


def _said(found: Verdict) -> str:
    head = f"{found.name}: {_dialects(found.family)}"
    if not found.tested:
        return f"{head}: not tested: {found.why_not}"
    return "\n".join(
        [f"{head}: {'do not agree' if found.mismatches else 'agree'}", *(f"  {m}" for m in found.mismatches)]
    )


def _dialects(family: Family) -> str:
    return f"{family.name}: tools {family.tool_dialect}, reasoning {family.reasoning_dialect}"


def new(
    name: Annotated[str, typer.Argument(help="The name of the family.")],
    model: Annotated[str | None, typer.Argument(help="A model or a chat template to draft it from.")] = None,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Draft a family file of your own, from a model's files if one is named. Exit 73 if it exists."""
    with failing("profiles new", as_json):
        where = load.own_families(os.environ)
        if where is None:
            raise BadRequest("there is no home directory here; set APPLIANCE_HOME")
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{name!r} is no name for a family: letters, digits and . _ -")
        if name in (every := families()) and name not in every.own:
            raise BadRequest(
                f"{name} is a shipped family, and a file of that name takes its place with all short names; choose"
                f" another name, or begin with its own text: `appliance profiles show {name}`"
            )
        subject = subjects(model, file)[0] if model else None
        path = where / f"{name}.yaml"
        text = _drafted(name, subject)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            (where / SCHEMA).write_text(load.schema_text("family"), encoding="utf-8")
            with path.open("x", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            hint = "; delete it first, or choose another name" if isinstance(error, FileExistsError) else ""
            note(f"appliance: {error.filename or path} cannot be written: {error.strerror}{hint}")
            raise typer.Exit(CANNOT_WRITE) from None
    if as_json:
        tell("profiles new", {"family": name, "file": str(path)})
        return
    typer.echo(f"{path}")
    note(f"correct it, then `appliance profiles test {model or 'MODEL'}`; a running appliance reads it on reload")


def _drafted(name: str, subject: Subject | None) -> str:
    facts = subject.checkpoint if subject else None
    if subject is None or not subject.template:
        return draft(name, facts, [], "none", "none")
    others = [text for file in families().values() for way in file.matches for text in way.template_has]
    tools, reasoning = fitting(subject.template)
    return draft(name, facts, texts(subject.template, others), tools, reasoning)
