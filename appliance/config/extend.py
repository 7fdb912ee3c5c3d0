"""`extends`: a model's values laid over those of the model it starts from, leaf by leaf. PURE."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from appliance.config.checked import Checked
from appliance.config.problem import Path, Place, Problem, at
from appliance.config.suggest import did_you_mean

MAX_DEPTH = 4


def extend(file: Checked) -> tuple[Checked, list[Problem]]:
    """The file with every model complete, and the models that start from nothing or from themselves.

    What a model inherits stands where it was written.
    """
    models = file.value.get("models", {})
    if not any("extends" in model for model in models.values()):
        return file, []
    problems: list[Problem] = []
    parents = {name: chain[0] for name in models if (chain := _chain(name, models, file, problems))}
    extending = _Extending(file, models, parents)
    complete = {name: extending.complete(name) for name in models}
    keys, values = extending.keys.all("models", file.keys), extending.values.all("models", file.values)
    return replace(file, value={**file.value, "models": complete}, keys=keys, values=values), problems


class _Places:
    """Where things stand, by model and the path within it."""

    def __init__(self, places: Mapping[Path, Place]) -> None:
        self.by_model: dict[str, dict[Path, Place]] = {}
        for path, place in places.items():
            if len(path) > 2 and path[0] == "models":
                self.by_model.setdefault(str(path[1]), {})[path[2:]] = place

    def inherit(self, name: str, parent: str, inherited: Mapping[str, Any]) -> None:
        own = self.by_model.setdefault(name, {})
        for path, place in self.by_model.get(parent, {}).items():
            if path[0] in inherited:
                own.setdefault(path, place)

    def all(self, kind: str, others: Mapping[Path, Place]) -> dict[Path, Place]:
        found = {(kind, name, *path): place for name, own in self.by_model.items() for path, place in own.items()}
        return {**others, **found}


class _Extending:
    def __init__(self, file: Checked, models: Mapping[str, Any], parents: Mapping[str, str]) -> None:
        self.nulls = file.nulls
        self.models = models
        self.parents = parents
        self.keys, self.values = _Places(file.keys), _Places(file.values)
        self.done: dict[str, dict[str, Any]] = {}

    def complete(self, name: str) -> dict[str, Any]:
        if name not in self.done:
            own, parent = self.models[name], self.parents.get(name)
            self.done[name] = own if parent is None else self.over(name, own, parent)
        return self.done[name]

    def over(self, name: str, own: Mapping[str, Any], parent: str) -> dict[str, Any]:
        # A revision belongs to the source it was written for.
        dropped = {"extends", *(("revision",) if "source" in own else ())}
        inherited = {key: value for key, value in self.complete(parent).items() if key not in dropped}
        for places in (self.keys, self.values):
            places.inherit(name, parent, inherited)
        return _lay(own, inherited, ("models", name), self.nulls)


def _chain(name: str, models: Mapping[str, Any], file: Checked, problems: list[Problem]) -> list[str]:
    """The models a model starts from, nearest first; empty where that leads nowhere."""
    steps = [name]
    while (parent := models[steps[-1]].get("extends")) is not None:
        path: Path = ("models", steps[-1], "extends")
        place = file.at_value(path)
        if parent not in models:
            if len(steps) == 1:
                hint = did_you_mean(parent, models)
                problems.append(at(place, "E201", path, f"there is no model {parent}", hint))
            return steps[1:]
        if parent in steps:
            if parent == name:
                shown = " > ".join([*steps, parent])
                problems.append(at(place, "E204", path, f"extends itself: {shown}", "let one of them stand alone"))
            return []
        steps.append(parent)
        if len(steps) > MAX_DEPTH + 1:
            hint = "write the values themselves"
            problems.append(at(place, "E205", path, f"more than {MAX_DEPTH} models extend one another", hint))
            return steps[1:]
    return steps[1:]


def _lay(child: Mapping[str, Any], parent: Mapping[str, Any], path: Path, nulls: frozenset[Path]) -> dict[str, Any]:
    """A null of the child takes away what it would have inherited."""
    out = dict(child)
    for key, value in parent.items():
        here = (*path, key)
        if here in nulls:
            continue
        if key not in out:
            out[key] = _lay({}, value, here, nulls) if isinstance(value, Mapping) else value
        elif isinstance(out[key], Mapping) and isinstance(value, Mapping):
            out[key] = _lay(out[key], value, here, nulls)
    return out
