"""Aliases resolved to models: references, cycles, depth and shadowing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.config.checked import Checked
from appliance.config.deployment import Alias, Overlay
from appliance.config.globs import contains, is_glob
from appliance.config.overlay import lay, overlay
from appliance.config.policy import tighten
from appliance.config.problem import Path, Problem, at
from appliance.config.suggest import did_you_mean

Layer = tuple[Path, Overlay]
"""An overlay with where it stands in the file."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One alias with what it goes through: its own layers, strongest first, profiles after aliases."""

    name: str
    model: str
    hidden: bool
    own: tuple[Layer, ...]
    profiles: tuple[str, ...]

    def alias(self) -> Alias:
        layers = [layer for _, layer in self.own]
        combined, _ = tighten([layer.policy for layer in reversed(layers)])
        own = layers[0] if len(layers) == 1 else lay(layers[0], layers[1], combined)
        return Alias(self.name, self.model, own, self.profiles, self.hidden)


def chains(file: Checked) -> tuple[list[Chain], list[Problem]]:
    """Every alias that reaches a model, and the problems of those that do not."""
    written = file.value.get("aliases", {})
    aliases = {name: {"model": a} if isinstance(a, str) else a for name, a in written.items()}
    models = file.value.get("models", {})
    peers = file.value.get("routing", {}).get("peers", {})
    found, problems = [], []
    for name in aliases:
        outcome = _follow(name, aliases, _Targets(models, peers), file)
        if isinstance(outcome, Chain):
            found.append(outcome)
        else:
            problems.extend(outcome)
    return found, [*problems, *_covered(list(aliases), file)]


def _covered(names: list[str], file: Checked) -> Iterator[Problem]:
    """Globs of which a longer one takes every name: the longest that fits is followed, the first of several."""
    globs = sorted(filter(is_glob, names), key=len, reverse=True)
    for i, name in enumerate(globs):
        longer = next((other for other in globs[:i] if contains(other, name)), None)
        if longer is not None:
            line = file.at_key(("aliases", longer)).line
            why = "is longer" if len(longer) > len(name) else "comes first"
            message = f"this alias is never reached: `{longer}` (line {line}) {why} and takes all that it would"
            yield at(file.at_key(("aliases", name)), "E220", ("aliases", name), message, "delete one of them")


@dataclass(frozen=True, slots=True)
class _Targets:
    """What an alias may stand for: a model of the file, or any of a peer's."""

    models: Mapping[str, Any]
    peers: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        peer, slash, model = name.partition("/")
        return name in self.models or (bool(slash) and bool(model) and peer in self.peers)


def _follow(name: str, aliases: Mapping[str, Any], targets: _Targets, file: Checked) -> Chain | list[Problem]:
    models = targets.models
    if name in models:
        other = file.at_key(("models", name)).line
        hint = f"the model is on line {other}: rename one of them"
        return [at(file.at_key(("aliases", name)), "E206", ("aliases", name), "this is a model's name too", hint)]
    steps = [name]
    while (target := aliases[steps[-1]].get("model")) in aliases and target not in targets:
        if target in steps:
            return [_cycle(name, [*steps, target], file)] if target == name else []
        steps.append(target)
    if target is None:
        return []
    place, path = _target(name, file)
    if target not in targets:
        # Said once, at the alias whose own target is missing.
        return [_unknown(target, place, path, aliases, targets)] if len(steps) == 1 else []
    if len(steps) > 2:
        hint = f"write {target} here"
        return [
            at(place, "E205", path, f"leads over {', '.join(steps[1:])} to {target}: at most one alias between", hint)
        ]
    return Chain(
        name=name,
        model=target,
        hidden=aliases[name].get("hidden", False),
        own=tuple((("aliases", step), overlay(aliases[step])) for step in steps),
        profiles=tuple(p for step in steps if (p := aliases[step].get("profile")) is not None),
    )


def _target(name: str, file: Checked) -> tuple[Any, Path]:
    path: Path = ("aliases", name, "model")
    if path not in file.values:
        path = ("aliases", name)
    return file.at_value(path), path


def _cycle(name: str, steps: list[str], file: Checked) -> Problem:
    place, path = _target(name, file)
    return at(place, "E204", path, f"leads back to itself: {' > '.join(steps)}", "let one of them name a model")


def _unknown(target: str, place: Any, path: Path, aliases: Mapping[str, Any], targets: _Targets) -> Problem:
    peer, slash, model = target.partition("/")
    if slash and model and targets.peers:
        hint = did_you_mean(peer, targets.peers)
        return at(place, "E222", path, f"there is no peer {peer}", hint or "write it under routing.peers")
    models = targets.models
    hint = did_you_mean(target, _names(aliases, models)) or f"models are {', '.join(list(models)[:6])}"
    return at(place, "E201", path, f"there is no model {target}", hint if models else "")


def _names(aliases: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[str]:
    yield from models
    yield from aliases
