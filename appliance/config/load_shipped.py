"""What is shipped beside the code: inside an installed package, or beside it in a checkout."""

import json
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from appliance.config.schema import Schema


def directory(name: str) -> Traversable:
    """A directory of shipped data: `schemas` or `profiles`."""
    package = resources.files("appliance")
    inside = package / "_shipped" / name
    return inside if inside.is_dir() else package / ".." / name


def schema_text(which: str) -> str:
    """The JSON schema `deploy` or `family`, as shipped."""
    return (directory("schemas") / f"{which}.schema.json").read_text(encoding="utf-8")


@cache
def schema(which: str) -> Schema:
    """The JSON schema `deploy` or `family`, ready for use."""
    return Schema(json.loads(schema_text(which)))
