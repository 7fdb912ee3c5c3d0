"""A valid tree, families and facts about checkpoints to one frozen Deployment, or the problems of meaning."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from appliance.config import aliases, operations
from appliance.config.access import security
from appliance.config.checked import Checked
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import (
    EMPTY,
    CachePolicy,
    Deployment,
    EngineOptions,
    Listen,
    MemorySettings,
    ModelSpec,
    Overlay,
    Queue,
    ServerSettings,
    Source,
    Tls,
)
from appliance.config.extend import extend
from appliance.config.listen import BadAddress, address
from appliance.config.model import Models
from appliance.config.overlay import overlay
from appliance.config.policy import Conflict, tighten
from appliance.config.problem import Path, Problem
from appliance.config.routing import Known, Routing, routing
from appliance.config.suggest import did_you_mean
from appliance.config.units import Share, show_bytes
from appliance.config.world import Notes, World


def resolve(file: Checked, world: World) -> tuple[Deployment, list[Problem]]:
    """The deployment, and errors or warnings: with an error it is only what could be made of the rest."""
    file, problems = extend(file)
    notes = Notes(file, problems)
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
        memory = self.memory()
        caches = self.caches(memory.budget)
        defaults = overlay(self.block("defaults"))
        profiles = {name: overlay(value) for name, value in self.block("profiles").items()}
        make = Models(self.notes, self.world, caches)
        models = make.all(self.block("models"), self.block("defaults"))
        chains, problems = aliases.chains(self.file)
        self.notes.problems += problems
        self.references(profiles)
        self.policies(defaults, profiles, models, chains)
        self.fits(memory.budget, models, make.inspected)
        names = Known(
            self.block("models"), self.block("aliases"), profiles, self.block("security").get("keys", EMPTY)
        )
        routes = routing(self.block("routing"), self.notes, names)
        keys = security(self.block("security"), self.notes, [*names.models, *names.aliases, *routes.virtual])
        for key in keys.keys.values():
            self.combine([(("security", "keys", key.name), Overlay(policy=key.policy))])
        for path, own in _overlays(routes):
            self.combine([(path, own)])
        engine = self.block("engine")
        return Deployment(
            server=self.server(),
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
            storage=operations.storage(self.block("storage"), self.notes, self.world),
            hooks=operations.hooks(self.file.value.get("hooks", [])),
            observability=operations.observability(self.block("observability")),
        )

    # ---- blocks
    def server(self) -> ServerSettings:
        server = self.block("server")
        reload = server.get("reload", {})
        return ServerSettings(
            listen=self.listen(server.get("listen", "127.0.0.1:8080")),
            request_timeout=server.get("request_timeout", 1800.0),
            first_token_timeout=server.get("first_token_timeout", 600.0),
            idle_timeout=server.get("idle_timeout", 120.0),
            drain_timeout=server.get("drain_timeout", 120.0),
            heartbeat=server.get("heartbeat", 15.0),
            max_body=server.get("max_body", 32 * 2**20),
            unknown_fields=server.get("unknown_fields", "warn"),
            watch=reload.get("watch", True),
            quiet=reload.get("quiet", 0.3),
            tls=self.tls(server.get("tls", EMPTY)),
            apis=tuple(server.get("apis", ("openai",))),
            time_zone=server.get("time_zone"),
            cors=tuple(server.get("cors", ())),
            trusted_hosts=tuple(server.get("trusted_hosts", ())),
        )

    def tls(self, value: Mapping[str, str]) -> Tls | None:
        found = {}
        for key, file in value.items():
            path: Path = ("server", "tls", key)
            if (absolute := self.world.path(file, self.notes, path)) is None:
                continue
            if not self.world.stat(absolute):
                self.notes.say("E209", path, f"there is no file at {absolute}")
            found[key] = absolute
        if not {"cert", "key"} <= found.keys():
            return None
        return Tls(found["cert"], found["key"], found.get("client_ca"))

    def memory(self) -> MemorySettings:
        memory = self.block("memory")
        budget = self.amount(("memory", "budget"), memory.get("budget", Share(0.75)))
        reserve = memory.get("kv_reserve", Share(0.2))
        return MemorySettings(
            budget=budget,
            keep_free=self.part(memory.get("keep_free", 0), self.world.memory_bytes, ("memory", "keep_free")),
            kv_reserve=self.part(reserve, budget, ("memory", "kv_reserve")),
            max_loaded=memory.get("max_loaded"),
            exclusive=self.exclusive(memory.get("exclusive", ())),
            queue=Queue(**memory.get("queue", EMPTY)),
        )

    def part(self, written: int | Share, whole: int, path: Path) -> int:
        """Bytes of a whole, which they must not fill."""
        amount = round(written.of_memory * whole) if isinstance(written, Share) else written
        if whole and amount >= whole:
            self.notes.say("E213", path, f"{show_bytes(amount)} of {show_bytes(whole)} leaves nothing for models")
        return amount

    def exclusive(self, groups: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
        models = self.block("models")
        for i, group in enumerate(groups):
            for j, name in enumerate(group):
                if name not in models:
                    path: Path = ("memory", "exclusive", i, j)
                    self.notes.say("E201", path, f"there is no model {name}", did_you_mean(name, models))
        return tuple(frozenset(group) for group in groups)

    def listen(self, written: str | list[str]) -> tuple[Listen, ...]:
        found: list[Listen] = []
        for i, text in enumerate([written] if isinstance(written, str) else written):
            path: Path = ("server", "listen") if isinstance(written, str) else ("server", "listen", i)
            try:
                base = self.world.bases[self.file.at_value(path).file]
                listen = address(text, base, self.world.home)
            except BadAddress as bad:
                self.notes.say("E216", path, bad.message, bad.hint)
                continue
            if listen in found:
                self.notes.say("E216", path, f"{text} stands twice", "delete one")
            found.append(listen)
        return tuple(found)

    def amount(self, path: Path, written: int | Share) -> int:
        total = self.world.memory_bytes
        amount = round(written.of_memory * total) if isinstance(written, Share) else written
        if amount > total:
            hint = f"this machine has {show_bytes(total)}"
            self.notes.say("E213", path, f"{show_bytes(amount)} is more than there is", hint)
        if amount == 0:
            self.notes.say("E213", path, "no memory at all", "write an amount like 8GiB or 75%")
        return amount

    def caches(self, budget: int) -> dict[str, CachePolicy]:
        built_in: dict[str, Any] = {"chat": {"prefix": {}}, "none": {"prefix": "none"}}
        written = built_in | self.block("cache")
        found = {}
        for name, value in written.items():
            prefix, path = value.get("prefix", "none"), ("cache", name, "prefix", "memory")
            amount = 0
            if prefix != "none":
                amount = self.amount(path, prefix.get("memory", Share(0.1)))
            if amount > budget and path in self.file.values:
                self.notes.say("E213", path, f"{show_bytes(amount)} is more than memory.budget, {show_bytes(budget)}")
            found[name] = self.cache(name, value, min(amount, budget))
        return found

    def cache(self, name: str, value: Mapping[str, Any], prefix_bytes: int) -> CachePolicy:
        prefix = value.get("prefix", "none")
        prefix = EMPTY if prefix == "none" else prefix
        directory = self.world.own("kv")
        if "path" in prefix:
            directory = self.world.path(prefix["path"], self.notes, ("cache", name, "prefix", "path")) or directory
        return CachePolicy(
            name=name,
            prefix_bytes=prefix_bytes,
            disk_bytes=prefix.get("disk", 0),
            path=directory,
            ttl=prefix.get("ttl", 604800.0),
            share=value.get("share", "key"),
        )

    # ---- across entities
    def references(self, profiles: Mapping[str, Overlay]) -> None:
        for kind in ("models", "aliases"):
            for name, written in self.block(kind).items():
                wanted = written.get("profile") if isinstance(written, dict) else None
                if wanted is not None and wanted not in profiles:
                    hint = did_you_mean(wanted, profiles) or _listing("profiles", profiles)
                    self.notes.say("E202", (kind, name, "profile"), f"there is no profile {wanted}", hint)

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


def _overlays(routes: Routing) -> Iterator[aliases.Layer]:
    for i, rule in enumerate(routes.rules):
        for j, goal in enumerate(rule.use):
            yield ("routing", "rules", i, "use", j), goal.own


def _listing(what: str, names: Iterable[str]) -> str:
    shown = list(names)[:6]
    return f"{what} are {', '.join(shown)}" if shown else f"there are no {what}"
