"""The valid part of a deploy file: plain values with units read, and where each key and value stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.config.problem import Path, Place, Problem
from appliance.config.source import Scalar


@dataclass(frozen=True, slots=True)
class Checked:
    """Values have their units read and nulls are gone; `nulls` are the paths where one was written.

    `substituted` are the scalars something was substituted into, `secrets` the places of what must not be shown,
    `scalars` all scalars by path.
    """

    value: dict[str, Any]
    keys: Mapping[Path, Place]
    values: Mapping[Path, Place]
    substituted: tuple[Scalar, ...] = ()
    secrets: tuple[Place, ...] = ()
    nulls: frozenset[Path] = frozenset()
    scalars: Mapping[Path, Scalar] = field(default_factory=dict)

    def at_value(self, path: Path) -> Place:
        """Where the value stands, or the nearest thing around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values[path]

    def at_key(self, path: Path) -> Place:
        """Where the key stands, or the nearest thing around it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys[path] if path else self.values[()]

    def unexpanded(self, problem: Problem) -> Problem:
        """The problem without what was substituted into the value it is about: that may be a secret."""
        for scalar in self.substituted:
            place = scalar.place
            if (place.file, place.line, place.col) != (problem.file, problem.line, problem.col):
                continue
            if scalar.text and scalar.written:
                message, hint = (t.replace(scalar.text, scalar.written) for t in (problem.message, problem.hint))
                return replace(problem, message=message, hint=hint)
        return problem
