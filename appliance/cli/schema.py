"""`appliance schema`: the JSON schema of a file we read, for editors."""

from enum import StrEnum
from typing import Annotated

import typer

from appliance.config import load


class Which(StrEnum):
    DEPLOY = "deploy"
    FAMILY = "family"


def schema(
    which: Annotated[Which, typer.Argument(help="Of deploy.yaml, or of a model family's file.")] = Which.DEPLOY,
) -> None:
    """Print the JSON schema of deploy.yaml or of a family file."""
    typer.echo(load.schema_text(which), nl=False)
