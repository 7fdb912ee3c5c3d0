"""A valid tree, families and facts about checkpoints to one frozen Deployment, or the problems of meaning."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from appliance.config import aliases, operations
from appliance.config.access import security
from appliance.config.blocks import Blocks
from appliance.config.checked import Checked
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import (
    EMPTY,
    Deployment,
    EngineOptions,
    ModelSpec,
    Overlay,
    Source,
)
from appliance.config.model import Models
from appliance.config.overlay import overlay
from appliance.config.policy import Conflict, tighten
from appliance.config.problem import Path, Problem
from appliance.config.routing import Known, Routing, routing
from appliance.config.suggest import did_you_mean
from appliance.config.tuning import most_exact
from appliance.config.units import show_bytes
from appliance.config.world import Notes, World
from appliance.vocab.spec import KvForm


def resolve(file: Checked, world: World) -> tuple[Deployment, list[Problem]]:
    """The deployment, and errors or warnings: with an error it is only what could be made of the rest.

    Models of `file` are complete: see `extend`.
    """
    notes = Notes(file)
    deployment = _Resolve(file, world, notes).deployment()
    return deployment, [file.unexpanded(problem) for problem in _once(notes.problems)]


def _once(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Without the repetitions of a fault that several entities inherit."""
    return {(p.code, p.file, p.line, p.col, p.message): p for p in reversed(list(problems))}.values()


@dataclass(slots=True)
class _Resolve:
    file: Checked
    world: World
    notes: Notes

    def block(self, name: str) -> dict[str, Any]:
        value = self.file.value.get(name)
        return value if isinstance(value, dict) else {}

    def deployment(self) -> Deployment:
        blocks = Blocks(self.file, self.world, self.notes)
        memory = blocks.memory(self.block("memory"))
        caches = blocks.caches(self.block("cache"), memory.budget)
        defaults = overlay(self.block("defaults"))
        profiles = {name: overlay(value) for name, value in self.block("profiles").items()}
        storage = operations.storage(self.block("storage"), self.notes, self.world)
        make = Models(self.notes, self.world, caches, storage)
        models = make.all(self.block("models"), self.block("defaults"))
        chains, problems = aliases.chains(self.file)
        self.notes.problems += problems
        self.references(profiles)
        self.adapters(models, chains)
        self.policies(defaults, profiles, models, chains)
        self.fits(memory.budget, models, make.inspected)
        self.forms(models)
        names = Known(
            self.block("models"), self.block("aliases"), profiles, self.block("security").get("keys", EMPTY)
        )
        routes = routing(self.block("routing"), self.notes, names)
        asked = [*names.models, *names.aliases, *routes.virtual]
        keys = security(self.block("security"), self.notes, asked, routes.peers)
        for key in keys.keys.values():
            self.combine([(("security", "keys", key.name), Overlay(policy=key.policy))])
        for path, own in _overlays(routes):
            self.combine([(path, own)])
        engine = self.block("engine")
        return Deployment(
            server=blocks.server(self.block("server")),
            engine=EngineOptions(
                engine.get("blas", "auto"), engine.get("stall_target", 0.5), engine.get("spare", False)
            ),
            memory=memory,
            defaults=defaults,
            profiles=MappingProxyType(profiles),
            models=MappingProxyType(models),
            aliases=MappingProxyType({chain.name: chain.alias() for chain in chains}),
            caches=MappingProxyType(caches),
            digest="",
            security=keys,
            routing=routes,
            storage=storage,
            hooks=operations.hooks(self.file.value.get("hooks", [])),
            observability=operations.observability(self.block("observability"), self.notes),
        )

    # ---- across entities
    def references(self, profiles: Mapping[str, Overlay]) -> None:
        for kind in ("models", "aliases"):
            for name, written in self.block(kind).items():
                wanted = written.get("profile") if isinstance(written, dict) else None
                if wanted is not None and wanted not in profiles:
                    hint = did_you_mean(wanted, profiles) or _listing("profiles", profiles)
                    self.notes.say("E202", (kind, name, "profile"), f"there is no profile {wanted}", hint)

    def adapters(self, models: Mapping[str, ModelSpec], chains: Iterable[aliases.Chain]) -> None:
        """What an alias says itself; the alias it stands for is looked at on its own."""
        for chain in chains:
            path, own = chain.own[0]
            model = models.get(chain.model)
            adapters = model.adapters if model is not None else EMPTY
            if own.adapter and own.adapter not in adapters:
                hint = did_you_mean(own.adapter, adapters) or _listing("adapters", adapters)
                said = f"{chain.model} has no adapter {own.adapter}"
                self.notes.say("E226", (*path, "adapter"), said, hint)

    def policies(
        self,
        defaults: Overlay,
        profiles: Mapping[str, Overlay],
        models: Mapping[str, ModelSpec],
        chains: Iterable[aliases.Chain],
    ) -> None:
        """Every combination the file itself makes, weakest layer first."""
        profile_layers = {name: (("profiles", name), profile) for name, profile in profiles.items()}
        for profile in profile_layers.values():
            self.combine([profile])
        base: dict[str, list[aliases.Layer]] = {}
        for name, model in models.items():
            below = [profile_layers[model.profile]] if model.profile in profile_layers else []
            base[name] = [(("defaults",), defaults), *below, (("models", name), model.own)]
            self.combine(base[name])
        for chain in chains:
            chosen = [profile_layers[p] for p in reversed(chain.profiles) if p in profile_layers]
            self.combine([*base.get(chain.model, ()), *chosen, *reversed(chain.own)])

    def combine(self, layers: list[aliases.Layer]) -> None:
        _, conflicts = tighten([layer.policy for _, layer in layers])
        for conflict in conflicts:
            self.conflict(conflict, [path for path, _ in layers])

    def conflict(self, conflict: Conflict, layers: list[Path]) -> None:
        code = {"locks": "E210", "outside": "E211", "empty": "E212"}[conflict.kind]
        there, here = (
            (*layers[layer], "policy", kind, conflict.param) for layer, kind in (conflict.first, conflict.second)
        )
        other = "" if here == there else f"the other rule is on line {self.file.at_key(there).line}"
        self.notes.say(code, here, conflict.message, other, key=True)

    def fits(
        self, budget: int, models: Mapping[str, ModelSpec], inspected: Mapping[Source, Checkpoint | None]
    ) -> None:
        weights = {n: c.weight_bytes for n, m in models.items() if (c := inspected.get(m.source))}
        for name, size in weights.items():
            if size > budget:
                hint = f"needs at least {show_bytes(size)}, memory.budget is {show_bytes(budget)}"
                self.notes.say("E213", ("models", name), "this model can never be loaded", hint, key=True)
        kept = {models[n].fingerprint: n for n in weights if models[n].pin or models[n].load == "startup"}
        needed = sum(weights[n] for n in kept.values())
        if needed > budget and all(weights[n] <= budget for n in kept.values()):
            names = ", ".join(sorted(kept.values()))
            hint = f"{names} need at least {show_bytes(needed)}, memory.budget is {show_bytes(budget)}"
            self.notes.say("E213", ("memory", "budget"), "pinned and startup models do not fit together", hint)

    def forms(self, models: Mapping[str, ModelSpec]) -> None:
        """Models with one engine have one form of keys and values, and one of stored prefixes."""
        for name, model in models.items():
            sharers = [other for other in models.values() if other.fingerprint == model.fingerprint]
            for what, form in _FORMS.items():
                if form(model) != (exact := most_exact(map(form, sharers))):
                    other = next(other.name for other in sharers if form(other) == exact)
                    self.notes.say(
                        "W302", ("models", name), f"{what} as {other} wants them: both have the same weights",
                        f"give {name} and {other} the same `kv` and cache policy", key=True,
                    )  # fmt: skip


_FORMS: Mapping[str, Callable[[ModelSpec], KvForm | None]] = {
    "holds keys and values": lambda model: model.kv,
    "keeps prefixes": lambda model: model.cache.stored,
}


def _overlays(routes: Routing) -> Iterator[aliases.Layer]:
    for i, rule in enumerate(routes.rules):
        for j, goal in enumerate(rule.use):
            yield ("routing", "rules", i, "use", j), goal.own


def _listing(what: str, names: Iterable[str]) -> str:
    shown = list(names)[:6]
    return f"{what} are {', '.join(shown)}" if shown else f"there are no {what}"
