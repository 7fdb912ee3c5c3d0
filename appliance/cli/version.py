"""`appliance version`: what is installed."""

import typer

from appliance import __version__


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
