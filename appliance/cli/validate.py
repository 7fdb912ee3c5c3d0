"""`appliance validate`: everything that is wrong with a deploy file, offline."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.offline import document, examine
from appliance.config.codes import CODES
from appliance.config.deployment import Deployment
from appliance.config.problem import Problem, Rejected, as_data, github, human
from appliance.config.suggest import did_you_mean

USAGE = 2


class Format(StrEnum):
    HUMAN = "human"
    JSON = "json"
    GITHUB = "github"


def validate(
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    format: Annotated[Format, typer.Option(help="How problems are printed.")] = Format.HUMAN,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    explain: Annotated[str | None, typer.Option(help="Explain a code, like E102, and do nothing else.")] = None,
) -> None:
    """Check a deploy file without starting anything: exit 0 if it is valid, 78 if it is not."""
    if explain is not None:
        _explain(explain)
        return
    format = Format.JSON if as_json else format
    try:
        deployment = examine(file).deployment
    except Rejected as rejected:
        _print(format, file, None, rejected.problems)
        raise typer.Exit(Rejected.exit_code) from None
    _print(format, file, deployment, deployment.warnings)


def _explain(code: str) -> None:
    row = CODES.get(code.upper())
    if row is None:
        hint = did_you_mean(code.upper(), CODES) or f"codes are {', '.join(CODES)}"
        typer.echo(f"there is no code {code}; {hint}", err=True)
        raise typer.Exit(USAGE)
    title, text = row
    typer.echo(f"{code.upper()}: {title}\n\n{text}")


def _print(format: Format, file: Path, deployment: Deployment | None, problems: tuple[Problem, ...]) -> None:
    match format:
        case Format.JSON:
            typer.echo(_document(file, deployment, problems))
        case Format.GITHUB:
            if problems:
                typer.echo(github(problems))
        case Format.HUMAN:
            if problems:
                typer.echo(human(problems))
            typer.echo(_summary(file, deployment, problems), err=deployment is None)


def _document(file: Path, deployment: Deployment | None, problems: tuple[Problem, ...]) -> str:
    names = {"models": list(deployment.models), "aliases": list(deployment.aliases)} if deployment else {}
    data = {"file": str(file), **names}
    return document("validate", data, [as_data(problem) for problem in problems], ok=deployment is not None)


def _summary(file: Path, deployment: Deployment | None, problems: tuple[Problem, ...]) -> str:
    if deployment is None:
        code = problems[0].code
        return f"{_count(len(problems), 'problem')}; `appliance validate --explain {code}` says more about the first"
    counts = (_count(len(deployment.models), "model"), _count(len(deployment.aliases), "alias", "aliases"))
    return f"{file}: good: {', '.join(counts)}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
