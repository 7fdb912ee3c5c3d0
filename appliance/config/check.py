"""A located tree against a JSON schema: every Problem with its place, and the values with their units read.

What is wrong is the library's business; here is what it cannot do: substitution, places, coercion and units.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.config import source
from appliance.config.checked import Checked
from appliance.config.problem import Path, Place, Problem, at
from appliance.config.scalar import is_a
from appliance.config.schema import ANYWHERE, JsonSchema, Schema, types_of
from appliance.config.secret import Secret
from appliance.config.source import Node, Scalar, Sequence
from appliance.config.units import UNITS
from appliance.config.wording import Wording

Expand = Callable[[Scalar, Path], Scalar | Problem]

SAME: Mapping[str, Callable[[str], str]] = {"header": str.lower, "token": lambda key: key.lstrip("0")}
"""What keys that mean the same have in common, by what they name (`x-same`)."""
_DROP = object()


def check(tree: Node, schema: Schema, expand: Expand) -> tuple[Checked, list[Problem]]:
    """All problems of the second tier, and what is left without the parts that have one."""
    walk = _Walk(schema, expand)
    plain = walk.node(tree, schema.root, ())
    wording = Wording(schema, walk.keys, walk.values, walk.scalars)
    wrong = [found for error in schema.violations(plain) for found in wording.of(error)]
    wrong = [found for found in wording.one_per_value(wrong) if found.path not in walk.failed]
    reading = _Reading(schema, walk.failed | {found.path for found in wrong if found.spoils})
    value = reading.value(plain, schema.root, ())
    checked = Checked(
        value if isinstance(value, dict) else {},
        walk.keys, walk.values, tuple(walk.substituted), tuple(walk.secrets), frozenset(reading.nulls), walk.scalars,
    )  # fmt: skip
    return checked, walk.problems + [found.problem for found in wrong]


@dataclass(slots=True)
class _Walk:
    """The tree as plain values, before anything is known to be right."""

    schema: Schema
    expand: Expand
    problems: list[Problem] = field(default_factory=list)
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    scalars: dict[Path, Scalar] = field(default_factory=dict)
    substituted: list[Scalar] = field(default_factory=list)
    secrets: list[Place] = field(default_factory=list)
    failed: set[Path] = field(default_factory=set)

    def node(self, node: Node, schema: JsonSchema, path: Path) -> Any:
        self.values[path] = node.place
        match node:
            case Scalar():
                return self.scalar(node, self.schema.branch(schema, str) or ANYWHERE, path)
            case Sequence():
                items = self.schema.resolve((self.schema.branch(schema, list) or ANYWHERE).get("items", ANYWHERE))
                return [self.node(item, items, (*path, i)) for i, item in enumerate(node.items)]
            case _:
                return self.mapping(node, self.schema.branch(schema, dict) or ANYWHERE, path)

    def mapping(self, node: source.Mapping, schema: JsonSchema, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        # Where the schema says nothing of keys, any may stand.
        free = schema.get("x-free", "object" not in types_of(schema))
        twins = self.twins(node, schema)
        for key, entry in node.entries.items():
            if key.startswith("x-") and not free:
                continue
            here = (*path, key)
            self.keys[here] = entry.key
            if key in twins:
                self.values[here] = entry.value.place
                message = f"the same {schema['x-same']} as {twins[key]}"
                hint = f"delete one; the first one is on line {node.entries[twins[key]].key.line}"
                self.problems.append(at(entry.key, "E103", here, message, hint))
                continue
            below = self.schema.below(schema, key)
            if below is None and not free:
                # The library says so; what stands there means nothing, but may be a misspelt secret.
                out[key] = None
                self.values[here] = entry.value.place
                if any("x-secret" in self.schema.resolve(s) for s in schema.get("properties", ANYWHERE).values()):
                    self.secrets.append(entry.value.place)
            else:
                out[key] = self.node(entry.value, below or ANYWHERE, here)
        return out

    @staticmethod
    def twins(node: source.Mapping, schema: JsonSchema) -> dict[str, str]:
        """Keys that mean the same as an earlier one, and that one."""
        if "x-same" not in schema:
            return {}
        first: dict[str, str] = {}
        folded = {key: first.setdefault(SAME[schema["x-same"]](key), key) for key in node.entries}
        return {key: earlier for key, earlier in folded.items() if earlier != key}

    def scalar(self, node: Scalar, schema: JsonSchema, path: Path) -> Any:
        if schema.get("x-secret"):
            self.secrets.append(node.place)
        expanded = self.expand(node, path)
        if isinstance(expanded, Problem):
            self.problems.append(expanded)
            self.failed.add(path)
            return None
        self.scalars[path] = expanded
        value, types = source.natural(expanded), types_of(schema)
        if expanded.written is not None:
            # A secret is wrapped, so no message can hold it.
            if not schema.get("x-secret"):
                self.substituted.append(expanded)
            if "string" in types and not is_a(value, types):
                value = expanded.text
        return value


@dataclass(slots=True)
class _Reading:
    """Plain values to those used from here on; what has a problem is left out."""

    schema: Schema
    spoilt: set[Path]
    nulls: set[Path] = field(default_factory=set)

    def value(self, value: Any, schema: JsonSchema, path: Path) -> Any:
        if path in self.spoilt:
            return _DROP
        schema = self.schema.branch(schema, type(value)) or ANYWHERE
        match value:
            case None:
                self.nulls.add(path)
                return _DROP if schema else None
            case dict():
                return self.object(value, schema, path)
            case list():
                items = self.schema.resolve(schema.get("items", ANYWHERE))
                found = [self.value(item, items, (*path, i)) for i, item in enumerate(value)]
                if "object" in types_of(self.schema.branch(items, dict) or ANYWHERE):
                    return [{} if item is _DROP else item for item in found]
                # A list with a gap would put what follows it in the wrong place.
                return _DROP if any(item is _DROP for item in found) else found
        return _read(value, schema)

    def object(self, value: Mapping[str, Any], schema: JsonSchema, path: Path) -> dict[str, Any]:
        below = {key: self.schema.below(schema, key) or ANYWHERE for key in value}
        found = {key: self.value(v, below[key], (*path, key)) for key, v in value.items()}
        return {key: v for key, v in found.items() if v is not _DROP and (v is not None or not schema)}


def _read(value: str | int | float | bool, schema: JsonSchema) -> Any:
    if unit := schema.get("x-unit"):
        return UNITS[unit](value)
    if schema.get("x-secret"):
        return Secret(str(value))
    types = types_of(schema)
    if isinstance(value, float) and types and "number" not in types and math.isfinite(value):
        return int(value)
    return value
