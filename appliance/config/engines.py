"""What becomes of each engine when one deployment replaces another. PURE."""

from dataclasses import dataclass

from appliance.config.deployment import Deployment, ModelSpec


@dataclass(frozen=True, slots=True)
class Engines:
    """By the names of models. Those sharing an engine are in one group, joined by `+`.

    kept: process, weights and caches stay. rebuilt: the KV store is made anew, weights stay. replaced: a new engine
    takes over from the old one. added: none served this before; with `load: startup` or `pin` it is loaded at once.
    stopped: nobody asks for it any more.
    """

    kept: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


def engines(old: Deployment, new: Deployment, caches: frozenset[str]) -> Engines:
    """`caches` are the models whose KV store the plan rebuilds."""
    before, after = groups(old), groups(new)
    served_before = {model.name for models in before.values() for model in models}
    found: dict[str, list[str]] = {"kept": [], "rebuilt": [], "replaced": [], "added": []}
    for engine, models in after.items():
        names = [model.name for model in models]
        if engine in before:
            kind = "rebuilt" if caches.intersection(names) else "kept"
        else:
            kind = "replaced" if served_before.intersection(names) else "added"
        found[kind].append("+".join(names))
    replaced = {name for group in found["replaced"] for name in group.split("+")}
    gone = [models for engine, models in before.items() if engine not in after]
    stopped = [
        "+".join(m.name for m in models) for models in gone if not replaced.intersection(m.name for m in models)
    ]
    return Engines(**{kind: tuple(sorted(names)) for kind, names in found.items()}, stopped=tuple(sorted(stopped)))


def groups(deployment: Deployment) -> dict[str, list[ModelSpec]]:
    """The models by the engine that serves them: equal weights in a process started the same way."""
    found: dict[str, list[ModelSpec]] = {}
    for model in deployment.models.values():
        blas = "" if model.source.kind == "fake" else deployment.engine.blas
        found.setdefault(f"{model.fingerprint}:{blas}", []).append(model)
    return found
