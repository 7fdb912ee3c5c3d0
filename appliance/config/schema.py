"""A located tree against a JSON schema: every Problem with its place, and the values with their units read.

Evaluates the part of JSON Schema 2020-12 our schemas use, in one walk that also substitutes, coerces and reads units:
a general validator would need a second walk for that, and cannot say which key was meant.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from appliance.config import source
from appliance.config.problem import Path, Place, Problem, at
from appliance.config.scalar import Fault, JsonSchema, expected, is_a, matches, read, show, types_of
from appliance.config.source import Node, Scalar, Sequence
from appliance.config.suggest import nearest

Expand = Callable[[Scalar, Path], Scalar | Problem]

_INVALID = object()
_ANYWHERE: JsonSchema = {}


@dataclass(frozen=True, slots=True)
class Checked:
    """The valid part of a file: plain values with units read, nulls gone, and where each key and value stands.

    `substituted` are the scalars something was substituted into.
    """

    value: dict[str, Any]
    keys: Mapping[Path, Place]
    values: Mapping[Path, Place]
    substituted: tuple[Scalar, ...]

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
            if (place.line, place.col) == (problem.line, problem.col) and scalar.text and scalar.written:
                message, hint = (t.replace(scalar.text, scalar.written) for t in (problem.message, problem.hint))
                return replace(problem, message=message, hint=hint)
        return problem


class Schema:
    """A JSON schema ready for use: references resolved, keys findable by name."""

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        self._resolved: dict[int, JsonSchema] = {}
        self._homes: dict[str, list[tuple[str, ...]]] | None = None

    def resolve(self, schema: JsonSchema) -> JsonSchema:
        """The schema with its `$ref` laid under its own keywords."""
        if "$ref" not in schema:
            return schema
        found = self._resolved.get(id(schema))
        if found is None:
            target = self.root["$defs"][schema["$ref"].rpartition("/")[2]]
            found = self._resolved[id(schema)] = {**self.resolve(target), **schema}
        return found

    def below(self, schema: JsonSchema, key: str) -> JsonSchema | None:
        """The schema of one key of an object, None where the object has no such key."""
        properties = schema.get("properties", _ANYWHERE)
        if key in properties:
            return self.resolve(properties[key])
        additional = schema.get("additionalProperties", False)
        return self.resolve(additional) if isinstance(additional, Mapping) else None

    def homes(self, key: str) -> list[tuple[str, ...]]:
        """The objects that have this key, as paths with `*` for any name; nearest to the root first."""
        if self._homes is None:
            self._homes = {}
            for path, _ in self.properties():
                self._homes.setdefault(path[-1], []).append(path[:-1])
        return sorted(self._homes.get(key, []), key=len)

    def properties(self) -> Iterator[tuple[tuple[str, ...], JsonSchema]]:
        """Every named property with its path (`*` for any name)."""
        yield from self._properties(self.root, ())

    def _properties(self, schema: JsonSchema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonSchema]]:
        schema = self.resolve(schema)
        for branch in schema.get("anyOf", ()):
            yield from self._properties(branch, path)
        for key, value in schema.get("properties", _ANYWHERE).items():
            resolved = self.resolve(value)
            yield (*path, key), resolved
            yield from self._properties(resolved, (*path, key))
        if isinstance(additional := schema.get("additionalProperties"), Mapping):
            yield from self._properties(additional, (*path, "*"))


def check(tree: Node, schema: Schema, expand: Expand) -> tuple[Checked, list[Problem]]:
    """All problems of the second tier, and what is left without the parts that have one."""
    walk = _Walk(schema, expand)
    value = walk.node(tree, schema.root, ())
    return Checked(
        value if isinstance(value, dict) else {}, walk.keys, walk.values, tuple(walk.substituted)
    ), walk.problems


@dataclass(slots=True)
class _Walk:
    schema: Schema
    expand: Expand
    problems: list[Problem] = field(default_factory=list)
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    substituted: list[Scalar] = field(default_factory=list)

    def say(self, place: Place, code: str, path: Path, message: str, hint: str = "") -> object:
        self.problems.append(at(place, code, path, message, hint))
        return _INVALID

    def node(self, node: Node, schema: JsonSchema, path: Path) -> Any:
        self.values[path] = node.place
        if "type" not in schema and "anyOf" in schema:
            schema = self.branch(node, schema)
        types = types_of(schema)
        match node:
            case Scalar():
                return self.scalar(node, schema, types, path)
            case Sequence() if "array" in types:
                return self.sequence(node, schema, path)
            case source.Mapping() if "object" in types:
                return self.mapping(node, schema, path)
        got = "a list" if isinstance(node, Sequence) else "an object"
        hint = "write each name as a key" if got == "a list" and "propertyNames" in schema else ""
        return self.say(node.place, "E104", path, f"expected {expected(schema)}, got {got}", hint)

    def branch(self, node: Node, schema: JsonSchema) -> JsonSchema:
        """The alternative of this node's kind; where there is none, one that expects them all."""
        branches = [self.schema.resolve(branch) for branch in schema["anyOf"]]
        wanted = {Sequence: "array", source.Mapping: "object"}.get(type(node))
        for branch in branches:
            compound = {"array", "object"} & set(types_of(branch))
            if (wanted in compound) if wanted else not compound:
                return branch
        return {"type": "none", "x-expected": " or ".join(expected(branch) for branch in branches)}

    # ---- objects and lists
    def mapping(self, node: source.Mapping, schema: JsonSchema, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        free = schema.get("x-free", False)
        for key, entry in node.entries.items():
            if key.startswith("x-") and not free:
                continue
            here = (*path, key)
            self.keys[here] = entry.key
            below = self.schema.below(schema, key)
            if below is None:
                value = self.free(entry.value, here) if free else self.unknown(entry.key, schema, here)
            elif (refused := self.refused(schema, below, key)) is not None:
                value = self.say(entry.key, refused[0], here, *refused[1:])
            else:
                value = self.node(entry.value, below, here)
            if value is not _INVALID and value is not None:
                out[key] = value
        self.missing(node, schema, path)
        return out

    def refused(self, schema: JsonSchema, below: JsonSchema, key: str) -> tuple[str, str, str] | None:
        """Why a known key may not stand here in spite of that: code, message and hint."""
        if below.get("x-load-time"):
            return "E111", "a template file is chosen when the model is loaded", "put it under models.<name>.template"
        if below.get("x-later"):
            return "E110", "not available in this version", "delete it, or give it a name beginning with x-"
        names = schema.get("propertyNames")
        if names and key not in schema.get("properties", _ANYWHERE) and not matches(names["pattern"], key):
            return "E112", "not a name that can be used here", names["description"]
        return None

    def missing(self, node: source.Mapping, schema: JsonSchema, path: Path) -> None:
        place = self.keys.get(path, node.place)
        for key in schema.get("required", ()):
            if key not in node.entries:
                self.say(place, "E106", path, f"`{key}` is missing", _example(self.schema.below(schema, key), key))
        groups = [branch["required"] for branch in schema.get("anyOf", ()) if "required" in branch]
        if groups and not any(all(key in node.entries for key in group) for group in groups):
            choices = ", ".join(" and ".join(group) for group in groups)
            self.say(place, "E106", path, f"needs one of {choices}")
        if len(node.entries) < schema.get("minProperties", 0):
            self.say(place, "E106", path, "there must be at least one", "write a name and what it stands for")

    def sequence(self, node: Sequence, schema: JsonSchema, path: Path) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if not least <= len(node.items) <= most:
            wanted = f"exactly {least}" if least == most else f"at least {least}" if least else f"at most {most}"
            self.say(node.place, "E105", path, f"{len(node.items)} values where {wanted} are expected")
        items = self.schema.resolve(schema.get("items", _ANYWHERE))
        found = [self.node(item, items, (*path, i)) for i, item in enumerate(node.items)]
        return [item for item in found if item is not _INVALID]

    def free(self, node: Node, path: Path) -> Any:
        """A part the schema leaves open: substituted, otherwise as it stands."""
        self.values[path] = node.place
        match node:
            case Scalar():
                expanded = self.expanded(node, path)
                return _INVALID if expanded is None else source.natural(expanded)
            case Sequence():
                return [self.free(item, (*path, i)) for i, item in enumerate(node.items)]
            case _:
                return {key: self.free(entry.value, (*path, key)) for key, entry in node.entries.items()}

    def unknown(self, place: Place, schema: JsonSchema, path: Path) -> object:
        key = cast(str, path[-1])
        owner = schema.get("x-request-time")
        if owner and key in self.schema.resolve(self.schema.root["$defs"]["model"])["properties"]:
            hint = "put it under models.<name>; for another setting add another model"
            return self.say(place, "E111", path, f"{owner} holds request-time keys only", hint)
        siblings = schema.get("properties", _ANYWHERE)
        near = nearest(key, siblings)
        homes = [_shown(home, path) for home in self.schema.homes(key)]
        if homes and (near is None or abs(len(near) - len(key)) > 1):
            hint = f"this key belongs under `{_closest(homes)}`"
        elif near:
            hint = f"did you mean {near}?"
        else:
            usable = [name for name, below in siblings.items() if not self.schema.resolve(below).get("x-later")]
            hint = f"known here: {', '.join(usable)}" if 0 < len(usable) <= 6 else ""
        return self.say(place, "E102", path, "unknown key", hint)

    # ---- scalars
    def expanded(self, node: Scalar, path: Path) -> Scalar | None:
        expanded = self.expand(node, path)
        if isinstance(expanded, Problem):
            self.problems.append(expanded)
            return None
        if expanded.written is not None:
            self.substituted.append(expanded)
        return expanded

    def scalar(self, node: Scalar, schema: JsonSchema, types: tuple[str, ...], path: Path) -> Any:
        expanded = self.expanded(node, path)
        if expanded is None:
            return _INVALID
        value = source.natural(expanded)
        if expanded.written is not None and "string" in types and not is_a(value, types):
            value = expanded.text
        if value is None and "null" in types:
            return None
        if value is None:
            return self.say(node.place, "E104", path, "no value", f"write {expected(schema)}, or delete the key")
        fault = read(value, schema, types, expanded)
        if isinstance(fault, Fault):
            return self.say(node.place, fault.code, path, fault.message, fault.hint)
        return fault


def _example(schema: JsonSchema | None, key: str) -> str:
    if schema is None:
        return ""
    if "const" in schema:
        return f"write {key}: {show(schema['const'])}"
    examples = schema.get("examples")
    return f"write {key}: {show(examples[0])}" if examples else ""


def _shown(home: tuple[str, ...], path: Path) -> tuple[int, str]:
    """How far a home is from an object, and how to name it from there."""
    common = 0
    for part, own in zip(home, path[:-1], strict=False):
        if part not in ("*", own):
            break
        common += 1
    if common == len(path) - 1:
        return (len(home) - common, ".".join(_placeholder(home[common:]))) if common < len(home) else (9, "")
    return 9 + len(home), ".".join(_placeholder(home))


def _placeholder(parts: tuple[str, ...]) -> list[str]:
    return ["<name>" if part == "*" else part for part in parts]


def _closest(homes: list[tuple[int, str]]) -> str:
    return min(homes, key=lambda home: home[0])[1] or "the top level"
