"""One model of a valid file to its ModelSpec: source, files, checkpoint, family, template."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from appliance.config import sources, tuning
from appliance.config.attention import misfit, unwindowed
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import EMPTY, CachePolicy, Family, ModelSpec, Source
from appliance.config.family import GENERIC
from appliance.config.fingerprint import FileFact, fingerprint
from appliance.config.operations import Storage
from appliance.config.overlay import overlay
from appliance.config.problem import Path
from appliance.config.suggest import did_you_mean
from appliance.config.tuning import Quantized, RetryLoad
from appliance.config.world import Notes, World
from appliance.errors import SourceError
from appliance.vocab.request import SamplingPatch
from appliance.vocab.spec import KvForm, Speculative

_RELATIVE = "paths are relative to the file they stand in"


@dataclass(slots=True)
class Models:
    """Makes models, and remembers what their checkpoints said."""

    notes: Notes
    world: World
    caches: Mapping[str, CachePolicy]
    storage: Storage
    inspected: dict[Source, Checkpoint | None] = field(default_factory=dict)

    def all(self, models: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, ModelSpec]:
        """Those that can be made; of the others it is noted why not."""
        catalogue = self.world.catalogue()
        found = {}
        for name, written in models.items():
            source = self.source(name, written, catalogue) if "source" in written else None
            cache = self.cache(name, written, defaults)
            if source is not None:
                found[name] = self.model(name, written, defaults, source, cache, catalogue)
        return found

    def model(
        self,
        name: str,
        written: Mapping[str, Any],
        defaults: Mapping[str, Any],
        source: Source,
        cache: CachePolicy,
        catalogue: Mapping[str, str],
    ) -> ModelSpec:
        value = {**defaults, **written}
        files = self.files(name, source)
        checkpoint = self.checkpoint(name, source) if files is not None else None
        dtype, trust = value.get("dtype", "auto"), written.get("trust_remote_code", False)
        kind, quantize = written.get("kind", "text"), tuning.quantized(written.get("quantize"))
        max_kv = written.get("max_kv")
        speculative = tuning.speculative(written.get("speculative"), self.draft(name, written, catalogue))
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
            family=_spoken(self.family(name, written, source, checkpoint), written.get("dialects", EMPTY)),
            checkpoint=checkpoint.generation if checkpoint else SamplingPatch(),
            fingerprint=fingerprint(source, dtype, trust, files or (), _loading(kind, quantize, speculative, max_kv)),
            extends=written.get("extends"),
            kind=kind,
            retry_load=RetryLoad(**{**defaults.get("retry_load", EMPTY), **written.get("retry_load", EMPTY)}),
            kv=self.form(name, written, cache, checkpoint),
            max_kv=self.window(name, written, checkpoint),
            quantize=quantize,
            speculative=speculative,
            warm=self.warm(name, written),
            adapters=self.adapters(name, written),
            reckoned=self.world.families.memory(source.text),
        )

    def source(self, name: str, written: Mapping[str, Any], catalogue: Mapping[str, str]) -> Source | None:
        source = self.parsed(("models", name, "source"), written["source"], catalogue)
        return source and self.at_revision(name, written, source)

    def parsed(self, path: Path, text: str, catalogue: Mapping[str, str]) -> Source | None:
        try:
            base = self.world.bases[self.notes.file.at_value(path).file]
            return sources.parse(text, base, catalogue, home=self.world.home)
        except sources.SourceSyntax as syntax:
            self.notes.say("E207", path, syntax.message, syntax.hint)
            return None

    def draft(self, name: str, written: Mapping[str, Any], catalogue: Mapping[str, str]) -> str:
        """The source of a model's draft model, written in full; "" where it has none."""
        guessing, path = written.get("speculative") or EMPTY, ("models", name, "speculative")
        if guessing.get("kind") != "draft":
            if "draft" in guessing:
                self.notes.say(
                    "E224", (*path, "draft"), "only `kind: draft` has a draft model", "delete it", key=True
                )
            return ""
        if "draft" not in guessing:
            hint = "name a smaller model of the same family with `draft`"
            self.notes.say("E224", (*path, "kind"), "`kind: draft` needs a draft model", hint)
            return ""
        source = self.parsed((*path, "draft"), guessing["draft"], catalogue)
        return "" if source is None else sources.in_full(source)

    def at_revision(self, name: str, written: Mapping[str, Any], source: Source) -> Source:
        revision, path = written.get("revision"), ("models", name, "revision")
        if revision is None:
            return source
        if source.kind != "hf":
            self.notes.say(
                "E215", path, f"{source.text} has no revisions", "delete it; only hf: sources have them", key=True
            )
        elif source.revision not in ("main", revision):
            self.notes.say(
                "E215", path, f"the source says {source.revision}", "say it in one of the two places", key=True
            )
        return Source(source.kind, source.ref, source.text, revision)

    def files(self, name: str, source: Source) -> tuple[FileFact, ...] | None:
        """The files of a local source, () for others, None where there should be some and are not."""
        if source.kind not in ("path", "gguf", "fake"):
            return ()
        files = self.world.stat(source.ref)
        if not files:
            what = "directory with a model" if source.kind == "path" else "file"
            self.notes.say("E209", ("models", name, "source"), f"there is no {what} at {source.ref}", _RELATIVE)
        elif source.kind == "path" and all(file[0] != "config.json" for file in files):
            hint = "name a directory of an MLX model, or a file that ends in .gguf"
            self.notes.say("E209", ("models", name, "source"), f"no model: {source.ref} has no config.json", hint)
            return None
        return files or None

    def checkpoint(self, name: str, source: Source) -> Checkpoint | None:
        if source not in self.inspected:
            try:
                self.inspected[source] = self.world.inspect(source, self.storage)
            except SourceError as error:
                self.notes.say("E217", ("models", name, "source"), error.message)
                self.inspected[source] = None
        return self.inspected[source]

    def cache(self, name: str, written: Mapping[str, Any], defaults: Mapping[str, Any]) -> CachePolicy:
        wanted = written.get("cache") or defaults.get("cache") or "chat"
        if wanted in self.caches:
            return self.caches[wanted]
        path: Path = ("models", name, "cache") if "cache" in written else ("defaults", "cache")
        hint = did_you_mean(wanted, self.caches) or f"policies are {', '.join(self.caches)}"
        self.notes.say("E203", path, f"there is no cache policy {wanted}", hint)
        return self.caches["none"]

    def family(self, name: str, written: Mapping[str, Any], source: Source, checkpoint: Checkpoint | None) -> Family:
        """Forced by the file, else known from the catalogue, else recognised from the checkpoint, else generic."""
        families = self.world.families
        if (forced := written.get("family")) is not None:
            if forced in families:
                return families[forced].family
            hint = did_you_mean(forced, families) or "`appliance profiles ls` lists them"
            self.notes.say("E214", ("models", name, "family"), f"there is no family {forced}", hint)
        elif (listed := families.listed(source.text)) is not None:
            return listed.family
        elif checkpoint is not None and source.kind != "fake":
            if recognised := families.recognise(checkpoint):
                return recognised.family
            kind = checkpoint.model_type or "unnamed"
            hint = "name one with `family`, or write a family file"
            self.notes.say("W301", ("models", name, "source"), f"no family recognises this {kind} checkpoint", hint)
        return families[GENERIC].family

    def template(self, name: str, written: Mapping[str, Any]) -> str | None:
        file = written.get("template", {}).get("file")
        if file is None:
            return None
        return self.world.text(file, self.notes, ("models", name, "template", "file"))

    def form(
        self, name: str, written: Mapping[str, Any], cache: CachePolicy, checkpoint: Checkpoint | None
    ) -> KvForm | None:
        """That of running keys and values; a note where they, or kept ones, cannot have theirs."""
        form = tuning.kv(written.get("kv"))
        if checkpoint is not None:
            if form is not None and (why := misfit(checkpoint.attention, form)):
                self.notes.say("E225", ("models", name, "kv"), why, "delete it, or choose another group", key=True)
            if cache.stored is not None and (why := misfit(checkpoint.attention, cache.stored)):
                path: Path = ("models", name, "cache") if "cache" in written else ("cache", cache.name, "prefix")
                self.notes.say("E225", path, f"{cache.name} keeps prefixes in {cache.stored.bits} bits: {why}",
                               "use a cache policy without `bits`")  # fmt: skip
        return form

    def window(self, name: str, written: Mapping[str, Any], checkpoint: Checkpoint | None) -> int | None:
        """How far back its sequences look; a note where the model does not allow that."""
        path: Path = ("models", name, "max_kv")
        if (tokens := written.get("max_kv")) is not None:
            if "kv" in written:
                self.notes.say("E225", path, "a window's keys and values cannot be quantized", "delete `kv` or it",
                               key=True)  # fmt: skip
            if checkpoint is not None and (why := unwindowed(checkpoint.attention)):
                self.notes.say("E225", path, why, "delete it", key=True)
        return tokens

    def warm(self, name: str, written: Mapping[str, Any]) -> tuple[str, ...]:
        paths = enumerate(written.get("warm", ()))
        texts = [self.world.text(file, self.notes, ("models", name, "warm", i)) for i, file in paths]
        return tuple(text for text in texts if text is not None)

    def adapters(self, name: str, written: Mapping[str, Any]) -> Mapping[str, str]:
        found = {}
        for adapter, directory in written.get("adapters", EMPTY).items():
            path: Path = ("models", name, "adapters", adapter)
            if (absolute := self.world.path(directory, self.notes, path)) is None:
                continue
            if not self.world.stat(absolute):
                self.notes.say("E209", path, f"there is no directory with an adapter at {absolute}", _RELATIVE)
            found[adapter] = absolute
        return MappingProxyType(found)

    def without_file(self, written: Mapping[str, Any]) -> Mapping[str, Any]:
        kwargs = {key: v for key, v in written.get("template", {}).items() if key != "file"}
        return {**written, "template": kwargs}


def _spoken(family: Family, dialects: Mapping[str, str]) -> Family:
    """The family with the text formats the file says instead."""
    if not dialects:
        return family
    return replace(
        family,
        tool_dialect=dialects.get("tools", family.tool_dialect),
        reasoning_dialect=dialects.get("reasoning", family.reasoning_dialect),
    )


def _loading(
    kind: str, quantize: Quantized | None, speculative: Speculative | None, max_kv: int | None
) -> Mapping[str, Any]:
    """What decides the weights, and what is built over them once, besides source and dtype, where it was given."""
    given: dict[str, Any] = {} if kind == "text" else {"kind": kind}
    given |= {} if max_kv is None else {"max_kv": max_kv}
    parts = {"quantize": quantize, "speculative": speculative}
    return given | {name: asdict(part) for name, part in parts.items() if part is not None}
