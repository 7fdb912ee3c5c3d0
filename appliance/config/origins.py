"""Where each setting of a deployment comes from: the layer that won, and every layer it beat. PURE."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from appliance.config.aliases import Chain, chains
from appliance.config.checked import Checked
from appliance.config.deployment import EMPTY, Deployment, ModelSpec, Overlay
from appliance.config.effort import EFFORT, SWITCH, spoken
from appliance.config.overlay import overlay
from appliance.config.peered import is_peer
from appliance.config.problem import Path, Place, dotted
from appliance.config.sampling import Decided, decide, find, mode, model_named
from appliance.config.schema import Schema
from appliance.config.secret import Secret
from appliance.config.settings import Setting, entity, plain, settings
from appliance.config.source import natural
from appliance.config.suggest import did_you_mean
from appliance.vocab.request import GenerateRequest, Sampling, SamplingPatch

BUILT_IN = "built-in"
_NOT_SET = object()
_PARAMS = [name for name in Sampling.__struct_fields__ if name != "logprobs"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Something that says what a setting is; `place` where it stands in a file."""

    name: str
    value: Any
    place: Place | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy that bears on a setting."""

    kind: Literal["lock", "clamp", "forbid"]
    name: str
    value: Any
    place: Place | None


@dataclass(frozen=True, slots=True)
class Origin:
    """`layers` strongest first: the first one won. `value` is what there is in the end, after all `rules`."""

    path: Path
    value: Any
    layers: tuple[Layer, ...]
    rules: tuple[Rule, ...] = ()


class NoSuchSetting(ValueError):
    """Nothing in the deployment has this path; says what is near."""


Origins = Mapping[Path, Origin]


FamilyText = Callable[[str], Checked | None]
"""The file that describes a family, by its name."""


def origins(deployment: Deployment, file: Checked, schema: Schema, families: FamilyText) -> Origins:
    """The origin of every setting. `file` is the file before models were completed by those they extend."""
    return {origin.path: origin for origin in _Tracing(deployment, file, schema, families).all()}


def find_origins(text: str, known: Origins) -> list[Origin]:
    """The setting a dotted path names, or all below it. Raises NoSuchSetting."""
    names = {form: path for path in known for form in (".".join(map(str, path)), dotted(path))}
    if text in names:
        return [known[names[text]]]
    below = [names[name] for name in names if name.startswith(f"{text}.")]
    if not below:
        near = did_you_mean(text, names)
        raise NoSuchSetting(f"there is no setting {text}; {near or '`appliance config --origins` lists them'}")
    return [known[path] for path in dict.fromkeys(below)]


@dataclass(frozen=True, slots=True)
class _Tracing:
    deployment: Deployment
    file: Checked
    schema: Schema
    families: FamilyText

    def all(self) -> Iterator[Origin]:
        for path, setting in settings(self.deployment).items():
            if not (
                path[0] in ("models", "aliases") and path[2] in ("sampling", "template") and path[3:] != ("file",)
            ):
                yield self.setting(path, setting)
        for model in self.deployment.models.values():
            yield from self.request_time(("models", model.name), model, None)
        found, _ = chains(self.file)
        for chain in found:
            yield from self.request_time(("aliases", chain.name), model_named(self.deployment, chain.model), chain)

    # ---- what is fixed when the file is read
    def setting(self, path: Path, setting: Setting) -> Origin:
        layers = list(self.written(path))
        if not layers:
            layers.append(self.fallback(path, setting))
        elif (default := self.default(path)) is not None:
            layers.append(Layer(BUILT_IN, default, None))
        return Origin(path, setting.data, tuple(layers))

    def written(self, path: Path) -> Iterator[Layer]:
        """What the file says, the strongest first."""
        if path[0] == "models":
            for name, given in self.inherited(str(path[1])):
                if _value(given, path[2:]) is not _NOT_SET:
                    yield from self.at(("models", name, *path[2:]), dotted(("models", name)))
            yield from self.at(("defaults", *path[2:]), "defaults")
        elif path[:2] == ("routing", "rules"):
            rules = self.file.value.get("routing", EMPTY).get("rules", ())
            i = next(i for i, rule in enumerate(rules) if rule.get("name") == path[2])
            yield from self.at((*path[:2], i, *path[3:]), dotted(path[:3]))
        else:
            yield from self.at(path, dotted(entity(path) or path[:1]))

    def at(self, path: Path, name: str) -> Iterator[Layer]:
        value = _value(self.file.value, path)
        if value is _NOT_SET and path[0] == "aliases" and path[2:] == ("model",):
            path, value = path[:2], _value(self.file.value, path[:2])
        if value is not _NOT_SET:
            yield Layer(name, self.as_written(path, value), self.file.at_value(path))

    def as_written(self, path: Path, value: Any) -> Any:
        """The text as it stands in the file, which never shows what was substituted."""
        scalar = self.file.scalars.get(path)
        if scalar is None:
            return plain(value)
        if scalar.written is not None:
            return scalar.written
        return plain(value) if isinstance(value, Secret) else natural(scalar)

    def fallback(self, path: Path, setting: Setting) -> Layer:
        default = self.default(path)
        if path[0] == "models" and path[2:] == ("family",):
            return Layer("recognised from the checkpoint", setting.data, None)
        if path[0] == "models" and path[2] == "dialects":
            family = self.deployment.models[str(path[1])].family.name
            return Layer(f"family {family}", setting.data, self.in_family(family, path[2:]))
        if path[0] == "models" and path[2:] == ("revision",) and setting.data not in (None, default):
            return Layer("the source", setting.data, self.file.at_value((*path[:2], "source")))
        return Layer(BUILT_IN, setting.data if default is None else default, None)

    def in_family(self, name: str, path: Path) -> Place | None:
        """Where the file of a family says it."""
        found = self.families(name)
        return found.at_value(path) if found is not None else None

    def default(self, path: Path) -> Any:
        """What the schema says goes without saying."""
        found = self.schema.root
        for part in path:
            below = self.schema.branch(found, dict)
            below = self.schema.below(below, str(part)) if below is not None else None
            if below is None:
                return None
            found = below
        return found.get("default")

    def lineage(self, name: str) -> list[str]:
        """A model and those it extends, itself first; one of a peer's is in no file."""
        models, steps = self.file.value.get("models", EMPTY), [name]
        while (parent := models.get(steps[-1], EMPTY).get("extends")) in models and parent not in steps:
            steps.append(parent)
        return steps

    def inherited(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The same with what each of them gives: a null takes away what stands in those behind it, and a source
        the revision of another.
        """
        taken: set[Path] = set()
        for step in self.lineage(name):
            given = self.file.value["models"].get(step, EMPTY)
            yield step, _without(given, taken, ())
            taken |= {null[2:] for null in self.file.nulls if null[:2] == ("models", step)}
            taken |= {("revision",)} if "source" in given else set()

    # ---- what each request decides, here for one that asks for nothing
    def request_time(self, path: Path, model: ModelSpec, chain: Chain | None) -> Iterator[Origin]:
        asked = GenerateRequest(model=str(path[1]), messages=())
        decided = decide(self.deployment, find(self.deployment, asked.model), asked, seed=0)
        overlays = list(self.overlays(model, chain))
        for param in _PARAMS:
            # What nobody decides is left to the peer.
            if is_peer(model) and param not in decided.given_names:
                continue
            layers = [*self.sampling_layers(param, overlays), *self.below(param, model, decided)]
            yield Origin(
                path=(*path, "sampling", param),
                value=plain(_decided(param, decided, layers)),
                layers=tuple(layers),
                rules=tuple(self.rules(param, overlays)),
            )
        for key, value in decided.template.items():
            yield Origin((*path, "template", key), plain(value), tuple(self.template_layers(key, overlays, model)))

    def overlays(self, model: ModelSpec, chain: Chain | None) -> Iterator[tuple[Path, Overlay]]:
        """The overlays of the file that bear on a request, the strongest first."""
        profiles = self.deployment.profiles
        if chain is not None:
            yield from chain.own
            yield from ((("profiles", name), profiles[name]) for name in chain.profiles)
        for name, written in self.inherited(model.name):
            template = {key: v for key, v in written.get("template", EMPTY).items() if key != "file"}
            yield ("models", name), overlay({**written, "template": template})
        if model.profile is not None:
            yield ("profiles", model.profile), profiles[model.profile]
        yield ("defaults",), self.deployment.defaults

    def sampling_layers(self, param: str, overlays: Iterable[tuple[Path, Overlay]]) -> Iterator[Layer]:
        for path, laid in overlays:
            given = laid.sampling.given()
            if param in given:
                yield Layer(dotted(path), plain(given[param]), self.file.at_value((*path, "sampling", param)))

    def below(self, param: str, model: ModelSpec, decided: Decided) -> Iterator[Layer]:
        """What speaks where the file is silent."""
        chosen = mode(model, decided.template)
        family, own = f"family {model.family.name}", ("sampling", param)
        weaker: list[tuple[str, SamplingPatch, Path]] = [
            *([(f"{family}, mode {chosen.name}", chosen.sampling, ("modes", chosen.name, *own))] if chosen else []),
            (family, model.family.sampling, own),
            ("the checkpoint's generation_config.json", model.checkpoint, ()),
        ]
        for name, patch, path in weaker:
            given = patch.given()
            if param in given:
                yield Layer(name, plain(given[param]), self.in_family(model.family.name, path) if path else None)
        if is_peer(model):
            return
        built_in = "drawn for each request" if param == "seed" else plain(getattr(Sampling(), param))
        yield Layer(BUILT_IN, built_in, None)

    def template_layers(
        self, key: str, overlays: Iterable[tuple[Path, Overlay]], model: ModelSpec
    ) -> Iterator[Layer]:
        listed = list(overlays)
        layers = spoken(model.family, (laid.template for _, laid in listed))
        for (path, laid), said in zip(listed, layers, strict=True):
            if key in said:
                written = next(name for name in (key, SWITCH, EFFORT) if name in laid.template)
                yield Layer(dotted(path), plain(said[key]), self.file.at_value((*path, "template", written)))
        if key in model.family.template_kwargs:
            place = self.in_family(model.family.name, ("template", "kwargs", key))
            yield Layer(f"family {model.family.name}", plain(model.family.template_kwargs[key]), place)

    def rules(self, param: str, overlays: Iterable[tuple[Path, Overlay]]) -> Iterator[Rule]:
        for path, laid in overlays:
            policy = laid.policy
            kinds: tuple[tuple[Literal["lock", "clamp", "forbid"], Mapping[str, Any]], ...]
            kinds = (("lock", policy.lock), ("clamp", policy.clamp), ("forbid", policy.forbid))
            for kind, rules in kinds:
                if param in rules:
                    place = self.file.at_value((*path, "policy", kind, param))
                    yield Rule(kind, dotted(path), plain(rules[param]), place)


def _decided(param: str, decided: Decided, layers: list[Layer]) -> Any:
    value = getattr(decided.sampling, param)
    return layers[0].value if param == "seed" and len(layers) == 1 else value


def _without(value: Mapping[str, Any], taken: Set[Path], path: Path) -> dict[str, Any]:
    return {
        key: _without(below, taken, (*path, key)) if isinstance(below, Mapping) else below
        for key, below in value.items()
        if (*path, key) not in taken
    }


def _value(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return _NOT_SET
    return value
