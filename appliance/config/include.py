"""Several files as one tree: settings side by side, and no entity or setting in two of them. PURE."""

from collections.abc import Sequence

from appliance.config.problem import Path, Place, Problem, at
from appliance.config.schema import ANYWHERE, JsonSchema, Schema
from appliance.config.source import Entry, Mapping, Node

_FIRST_ONLY = {
    "version": "included files have no `version`",
    "include": "only the first file includes others",
}


def join(first: Mapping, included: Sequence[tuple[Node, Place]], schema: Schema) -> tuple[Mapping, list[Problem]]:
    """One tree, and what stands twice. Each included tree comes with the place of its beginning."""
    problems: list[Problem] = []
    entries = dict(first.entries)
    for tree, beginning in included:
        if not isinstance(tree, Mapping):
            problems.append(at(beginning, "E104", (), "expected an object", "write keys like `models:`"))
            continue
        for key, message in _FIRST_ONLY.items():
            if key in tree.entries:
                problems.append(at(tree.entries[key].key, "E114", (key,), message, "delete it here"))
        rest = {key: entry for key, entry in tree.entries.items() if key not in _FIRST_ONLY}
        entries = _join(entries, rest, schema, schema.root, (), problems)
    return Mapping(entries, first.place), problems


def _join(
    ours: dict[str, Entry],
    theirs: dict[str, Entry],
    schema: Schema,
    at_schema: JsonSchema,
    path: Path,
    problems: list[Problem],
) -> dict[str, Entry]:
    out = dict(ours)
    for key, entry in theirs.items():
        here = (*path, key)
        other = out.get(key)
        below = schema.below(at_schema, key) or ANYWHERE
        if other is None:
            out[key] = entry
        elif isinstance(other.value, Mapping) and isinstance(entry.value, Mapping) and _is_block(at_schema, key):
            joined = _join(other.value.entries, entry.value.entries, schema, below, here, problems)
            out[key] = Entry(other.key, Mapping(joined, other.value.place))
        elif not key.startswith("x-"):
            where = f"{other.key.file}:{other.key.line}"
            problems.append(at(entry.key, "E114", here, f"stands in {where} too", "keep it in one of the files"))
    return out


def _is_block(schema: JsonSchema, key: str) -> bool:
    """A named part of the language, whose keys may be spread over files; an entity may not."""
    return key in schema.get("properties", ANYWHERE)
