"""A valid tree, families and facts about checkpoints to one frozen Deployment, or the problems of meaning."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from appliance.config import aliases, sources
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import (
    CachePolicy,
    Deployment,
    EngineOptions,
    Family,
    Listen,
    MemorySettings,
    ModelSpec,
    Overlay,
    ServerSettings,
    Source,
)
from appliance.config.family import GENERIC, FamilyFile, recognise
from appliance.config.fingerprint import FileFact, fingerprint
from appliance.config.listen import BadAddress, address
from appliance.config.overlay import overlay
from appliance.config.policy import Conflict, tighten
from appliance.config.problem import Path, Problem, at
from appliance.config.schema import Checked
from appliance.config.suggest import did_you_mean
from appliance.config.units import Share, show_bytes
from appliance.errors import SourceError
from appliance.vocab.request import SamplingPatch

Inspect = Callable[[Source], Checkpoint | None]


@dataclass(frozen=True, slots=True)
class World:
    """What resolving may know besides the file.

    `base` is the absolute directory of the file, `read` gives a text by its absolute path (raises OSError,
    UnicodeDecodeError), `stat` the files at an absolute path (of a directory: those in it; None: nothing there),
    `inspect` what a checkpoint says of itself (None: not here yet; raises SourceError).
    """

    base: str
    home: str
    memory_bytes: int
    families: Mapping[str, FamilyFile]
    inspect: Inspect
    stat: Callable[[str], tuple[FileFact, ...] | None]
    read: Callable[[str], str]

    def catalogue(self) -> dict[str, str]:
        """Every short name with its source."""
        return {name: text for f in self.families.values() for name, text in f.catalogue.items()}


def resolve(file: Checked, world: World) -> tuple[Deployment, list[Problem]]:
    """The deployment, and errors or warnings: with an error it is only what could be made of the rest."""
    work = _Resolve(file, world)
    deployment = work.deployment()
    return deployment, work.problems


@dataclass(slots=True)
class _Resolve:
    file: Checked
    world: World
    problems: list[Problem] = field(default_factory=list)
    inspected: dict[Source, Checkpoint | None] = field(default_factory=dict)

    def say(self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False) -> None:
        place = self.file.at_key(path) if key else self.file.at_value(path)
        self.problems.append(at(place, code, path, message, hint))

    def block(self, name: str) -> dict[str, Any]:
        value = self.file.value.get(name)
        return value if isinstance(value, dict) else {}

    def deployment(self) -> Deployment:
        memory = MemorySettings(self.amount(("memory", "budget"), self.block("memory").get("budget", Share(0.75))))
        caches = self.caches(memory.budget)
        defaults = overlay(self.block("defaults"))
        profiles = {name: overlay(value) for name, value in self.block("profiles").items()}
        models = self.models(caches, profiles)
        chains, problems = aliases.chains(self.file)
        self.problems += problems
        self.references(chains, profiles)
        self.policies(defaults, profiles, models, chains)
        self.fits(memory.budget, models)
        engine = self.block("engine")
        return Deployment(
            server=self.server(),
            engine=EngineOptions(engine.get("blas", "auto"), engine.get("stall_target", 0.5)),
            memory=memory,
            defaults=defaults,
            profiles=MappingProxyType(profiles),
            models=MappingProxyType(models),
            aliases=MappingProxyType({chain.name: chain.alias() for chain in chains}),
            caches=MappingProxyType(caches),
            digest="",
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
        )

    def listen(self, written: str | list[str]) -> tuple[Listen, ...]:
        found: list[Listen] = []
        for i, text in enumerate([written] if isinstance(written, str) else written):
            path: Path = ("server", "listen") if isinstance(written, str) else ("server", "listen", i)
            try:
                listen = address(text, self.world.base, self.world.home)
            except BadAddress as bad:
                self.say("E216", path, bad.message, bad.hint)
                continue
            if listen in found:
                self.say("E216", path, f"{text} stands twice", "delete one")
            found.append(listen)
        return tuple(found)

    def amount(self, path: Path, written: int | Share) -> int:
        total = self.world.memory_bytes
        amount = round(written.of_memory * total) if isinstance(written, Share) else written
        if amount > total:
            hint = f"this machine has {show_bytes(total)}"
            self.say("E213", path, f"{show_bytes(amount)} is more than there is", hint)
        if amount == 0:
            self.say("E213", path, "no memory at all", "write an amount like 8GiB or 75%")
        return amount

    def caches(self, budget: int) -> dict[str, CachePolicy]:
        built_in: dict[str, Any] = {"chat": {"prefix": {}}, "none": {"prefix": "none"}}
        written = built_in | self.block("cache")
        found = {}
        for name, value in written.items():
            prefix, path = value.get("prefix", "none"), ("cache", name, "prefix", "memory")
            amount = 0 if prefix == "none" else self.amount(path, prefix.get("memory", Share(0.1)))
            if amount > budget:
                self.say("E213", path, f"{show_bytes(amount)} is more than memory.budget, {show_bytes(budget)}")
            found[name] = CachePolicy(name, amount)
        return found

    # ---- models
    def models(self, caches: Mapping[str, CachePolicy], profiles: Mapping[str, Overlay]) -> dict[str, ModelSpec]:
        catalogue = self.world.catalogue()
        defaults = self.block("defaults")
        found = {}
        for name, written in self.block("models").items():
            source = self.source(name, written, catalogue) if "source" in written else None
            cache = self.cache(name, written, defaults, caches)
            if source is not None and cache is not None:
                found[name] = self.model(name, {**defaults, **written}, written, source, cache)
        return found

    def model(
        self, name: str, value: Mapping[str, Any], written: Mapping[str, Any], source: Source, cache: CachePolicy
    ) -> ModelSpec:
        files = self.files(name, source)
        checkpoint = self.checkpoint(name, source) if files is not None else None
        dtype, trust = value.get("dtype", "auto"), written.get("trust_remote_code", False)
        return ModelSpec(
            name=name,
            source=source,
            dtype=dtype,
            trust_remote_code=trust,
            load=value.get("load", "lazy"),
            pin=value.get("pin", False),
            idle_unload=value.get("idle_unload", 900.0),
            context=value.get("context", 32 * 1024),
            concurrency=value.get("concurrency", 8),
            cache=cache,
            load_timeout=value.get("load_timeout", 300.0),
            own=overlay(self.without_file(written)),
            profile=written.get("profile"),
            template_text=self.template(name, written),
            family=self.family(name, written, source, checkpoint),
            checkpoint=checkpoint.generation if checkpoint else SamplingPatch(),
            fingerprint=fingerprint(source, dtype, trust, files or ()),
        )

    def source(self, name: str, written: Mapping[str, Any], catalogue: Mapping[str, str]) -> Source | None:
        path: Path = ("models", name, "source")
        try:
            source = sources.parse(written["source"], self.world.base, catalogue, home=self.world.home)
        except sources.SourceSyntax as syntax:
            self.say("E207", path, syntax.message, syntax.hint)
            return None
        return self.at_revision(name, written, source)

    def at_revision(self, name: str, written: Mapping[str, Any], source: Source) -> Source:
        revision, path = written.get("revision"), ("models", name, "revision")
        if revision is None:
            return source
        if source.kind != "hf":
            self.say(
                "E215", path, f"{source.text} has no revisions", "delete it; only hf: sources have them", key=True
            )
        elif source.revision not in ("main", revision):
            self.say("E215", path, f"the source says {source.revision}", "say it in one of the two places", key=True)
        return Source(source.kind, source.ref, source.text, revision)

    def files(self, name: str, source: Source) -> tuple[FileFact, ...] | None:
        """The files of a local source, () for others, None where there should be some and are not."""
        if source.kind not in ("path", "gguf", "fake"):
            return ()
        files = self.world.stat(source.ref)
        if not files:
            what = "directory with a model" if source.kind == "path" else "file"
            self.say("E209", ("models", name, "source"), f"there is no {what} at {source.ref}")
        return files or None

    def checkpoint(self, name: str, source: Source) -> Checkpoint | None:
        if source not in self.inspected:
            try:
                self.inspected[source] = self.world.inspect(source)
            except SourceError as error:
                self.say("E217", ("models", name, "source"), error.message)
                self.inspected[source] = None
        return self.inspected[source]

    def cache(
        self, name: str, written: Mapping[str, Any], defaults: Mapping[str, Any], caches: Mapping[str, CachePolicy]
    ) -> CachePolicy | None:
        wanted = written.get("cache") or defaults.get("cache") or "chat"
        if wanted in caches:
            return caches[wanted]
        path: Path = ("models", name, "cache") if "cache" in written else ("defaults", "cache")
        hint = did_you_mean(wanted, caches) or f"policies are {', '.join(caches)}"
        self.say("E203", path, f"there is no cache policy {wanted}", hint)
        return None

    def family(self, name: str, written: Mapping[str, Any], source: Source, checkpoint: Checkpoint | None) -> Family:
        """Forced by the file, else known from the catalogue, else recognised from the checkpoint, else generic."""
        families = self.world.families
        if (forced := written.get("family")) is not None:
            if forced in families:
                return families[forced].family
            hint = did_you_mean(forced, families) or f"families are {', '.join(families)}"
            self.say("E214", ("models", name, "family"), f"there is no family {forced}", hint)
        elif listed := next((f for f in families.values() if source.text in f.catalogue), None):
            return listed.family
        elif checkpoint is not None and source.kind != "fake":
            if recognised := recognise(checkpoint, families.values()):
                return recognised.family
            kind = checkpoint.model_type or "unnamed"
            hint = "name one with `family`, or write a family file"
            self.say("W301", ("models", name, "source"), f"no family recognises this {kind} checkpoint", hint)
        return families[GENERIC].family

    def template(self, name: str, written: Mapping[str, Any]) -> str | None:
        file = written.get("template", {}).get("file")
        if file is None:
            return None
        path: Path = ("models", name, "template", "file")
        try:
            return self.world.read(sources.absolute(file, self.world.base, self.world.home))
        except sources.SourceSyntax as syntax:
            self.say("E209", path, syntax.message, syntax.hint)
        except UnicodeDecodeError:
            self.say("E108", path, f"{file} is not UTF-8 text")
        except OSError as error:
            self.say(
                "E209", path, f"{file} cannot be read: {error.strerror or error}", "paths are relative to this file"
            )
        return None

    def without_file(self, written: Mapping[str, Any]) -> Mapping[str, Any]:
        kwargs = {key: v for key, v in written.get("template", {}).items() if key != "file"}
        return {**written, "template": kwargs}

    # ---- across entities
    def references(self, chains: Iterable[aliases.Chain], profiles: Mapping[str, Overlay]) -> None:
        for kind in ("models", "aliases"):
            for name, written in self.block(kind).items():
                wanted = written.get("profile") if isinstance(written, dict) else None
                if wanted is not None and wanted not in profiles:
                    hint = did_you_mean(wanted, profiles) or _listing("profiles", profiles)
                    self.say("E202", (kind, name, "profile"), f"there is no profile {wanted}", hint)

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
        self.say(code, here, conflict.message, other, key=True)

    def fits(self, budget: int, models: Mapping[str, ModelSpec]) -> None:
        weights = {n: c.weight_bytes for n, m in models.items() if (c := self.inspected.get(m.source))}
        for name, size in weights.items():
            if size > budget:
                hint = f"needs at least {show_bytes(size)}, memory.budget is {show_bytes(budget)}"
                self.say("E213", ("models", name), "this model can never be loaded", hint, key=True)
        kept = {models[n].fingerprint: n for n in weights if models[n].pin or models[n].load == "startup"}
        needed = sum(weights[n] for n in kept.values())
        if needed > budget and all(weights[n] <= budget for n in kept.values()):
            names = ", ".join(sorted(kept.values()))
            hint = f"{names} need at least {show_bytes(needed)}, memory.budget is {show_bytes(budget)}"
            self.say("E213", ("memory", "budget"), "pinned and startup models do not fit together", hint)


def _listing(what: str, names: Iterable[str]) -> str:
    shown = list(names)[:6]
    return f"{what} are {', '.join(shown)}" if shown else f"there are no {what}"
