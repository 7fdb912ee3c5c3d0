"""`appliance profiles …`: the model families there are, and which one a model is of. Offline."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from appliance.cli.profile_trials import new, test
from appliance.cli.recognising import Subject, families, family_of, subjects
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing, table, tell
from appliance.config import load
from appliance.config.families import Families, as_data
from appliance.config.family import FamilyFile
from appliance.config.load_shipped import directory

_NEAREST = 3

profiles = typer.Typer(
    help="Show model families, and which one a model belongs to.", no_args_is_help=True, rich_markup_mode=None
)
profiles.command()(test)
profiles.command()(new)


@profiles.command()
def ls(as_json: AsJson = False) -> None:
    """List the families with their formats of tool calls and reasoning, and the number of short names of each."""
    with failing("profiles", as_json):
        every = families()
        if as_json:
            tell("profiles", [_row(file, every) for file in every.values()])
            return
        rows = [[str(value) for value in _row(file, every).values()] for file in every.values()]
    typer.echo(table(("FAMILY", "TOOLS", "REASONING", "THINKING", "NAMES", "FROM"), rows))


def _row(file: FamilyFile, every: Families) -> dict[str, Any]:
    family = file.family
    return {
        "family": family.name,
        "tools": family.tool_dialect,
        "reasoning": family.reasoning_dialect,
        "thinking": family.capabilities.get("thinking", "none"),
        "names": len(file.catalogue),
        "from": "own" if family.name in every.own else "shipped",
    }


@profiles.command()
def show(name: Annotated[str, typer.Argument(help="A family.")], as_json: AsJson = False) -> None:
    """Show a family: the file that describes it, or its facts as JSON."""
    with failing("profile", as_json):
        every = families()
        file = family_of(name, every)
        if as_json:
            tell("profile", _facts(file, own=name in every.own))
        elif name in every.own:
            typer.echo(_own_text(name), nl=False)
        else:
            typer.echo((directory("profiles") / f"{name}.yaml").read_text(encoding="utf-8"), nl=False)


def _own_text(name: str) -> str:
    where = load.own_families(os.environ)
    paths = where.glob("*.yaml") if where else ()
    every = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return next(text for path, text in every if load.family(text, str(path)).family.name == name)


def _facts(file: FamilyFile, *, own: bool) -> dict[str, Any]:
    family = file.family
    return {
        "family": family.name,
        "own": own,
        "match": as_data([file])[family.name]["match"],
        "dialects": {"tools": family.tool_dialect, "reasoning": family.reasoning_dialect},
        "template": {"kwargs": dict(family.template_kwargs), "roles": dict(family.roles)},
        "stop": list(family.stop_tokens),
        "sampling": family.sampling.given(),
        "modes": {mode.name: {"when": dict(mode.when), "sampling": mode.sampling.given()} for mode in family.modes},
        "capabilities": _plain(family.capabilities),
        "names": {short: {"source": e.source, "memory": e.memory} for short, e in file.catalogue.items()},
        "card": file.card,
    }


def _plain(value: Any) -> Any:
    return {key: _plain(below) for key, below in value.items()} if isinstance(value, Mapping) else value


Model = Annotated[str, typer.Argument(help="A model of the deploy file, a source, or a chat template's file.")]


@profiles.command()
def why(model: Model, file: File = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Explain which family a model belongs to, and why not to others."""
    with failing("why", as_json):
        found = [_reasons(subject) for subject in subjects(model, file)]
        if as_json:
            tell("why", found)
            return
        typer.echo("\n\n".join(_told(reasons) for reasons in found))


def _reasons(subject: Subject) -> dict[str, Any]:
    every, facts, family = families(), subject.checkpoint, subject.family
    scores = every.scores(facts) if facts else []
    nearest = every.nearest(facts)[:_NEAREST] if facts and not scores else []
    return {
        "model": subject.name,
        "family": family.name,
        "why": subject.why,
        "dialects": {"tools": family.tool_dialect, "reasoning": family.reasoning_dialect},
        "model_type": facts.model_type if facts else None,
        "template": None if facts is None else bool(facts.template),
        "fits": [{"family": name, "score": score} for score, name in scores],
        "nearest": [{"family": name, "lacks": lacks} for name, lacks in nearest],
    }


def _told(reasons: dict[str, Any]) -> str:
    dialects = reasons["dialects"]
    lines = [
        f"{reasons['model']}: {reasons['family']}: {reasons['why']}",
        f"  tools      {dialects['tools']}",
        f"  reasoning  {dialects['reasoning']}",
    ]
    if reasons["template"] is False:
        lines.append("  it has no chat template")
    if fits := reasons["fits"]:
        lines.append("  fits       " + ", ".join(f"{each['family']} ({each['score']})" for each in fits))
    for each in reasons["nearest"]:
        lines.append(f"  not {each['family']}: {'; '.join(each['lacks'])}")
    return "\n".join(lines)
