"""What a deployment asks of its engines: the models sharing a fingerprint folded into one want. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.config.deployment import Deployment, ModelSpec, Source, Target
from appliance.config.operations import Format, Level
from appliance.config.sampling import decide
from appliance.config.sources import parse
from appliance.config.tuning import most_exact
from appliance.control.eviction import Policy
from appliance.control.footprint import BASE_BYTES, ENGINE_BASE_BYTES
from appliance.control.residency import Terms, Want
from appliance.control.speech import Speech
from appliance.models.store import Store
from appliance.vocab.request import GenerateRequest, Message
from appliance.vocab.spec import ChatPrompt, DiskSettings, EngineSettings, EngineSpec

PREFIX_SHARE = 1 / 3
"""The most of an engine's share of free memory its prefix cache may take from running requests."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model's files are (None: not here yet) and the bytes its engine is expected to take when it is loaded,
    beside them those of its largest step, of what its rows keep however short they are, and of its `adapters`, which
    are read when they are first asked for; `measured` is what it took when it was loaded last, `store` where others
    are looked for that it needs beside it.
    """

    path: Path | None
    bytes: int
    activations: int = 0
    measured: int | None = None
    store: Store = Store()
    adapters: int = 0

    @property
    def known(self) -> bool:
        """Whether there is anything to go by: its files, or a measurement."""
        return self.path is not None or self.measured is not None

    @property
    def need(self) -> int:
        """What is planned for it."""
        return (self.bytes if self.measured is None else self.measured) + self.activations


@dataclass(frozen=True, slots=True)
class Demand:
    """One engine of the deployment: `models` share it, `first` stands for those properties all have equal."""

    first: ModelSpec
    models: tuple[ModelSpec, ...]
    place: Place
    blas: str
    stall_target: float
    warm: tuple[ChatPrompt, ...] = ()
    log: tuple[Format, Level] = ("console", "info")

    @property
    def fingerprint(self) -> str:
        return engine_of(self.first, self.blas)

    @property
    def want(self) -> Want:
        """Pinned if one is, the longest idle time, loaded at startup if one is."""
        return Want(
            fingerprint=self.fingerprint,
            model=self.first.name,
            bytes=self.place.bytes,
            activations=self.place.activations,
            measured=self.place.measured,
            pinned=any(model.pin for model in self.models),
            idle_unload=max(model.idle_unload for model in self.models),
            startup=any(model.load == "startup" for model in self.models),
            present=self.place.path is not None,
            retry=self.first.retry_load,
            speech=tuple(Speech.of(model) for model in self.models),
        )

    @property
    def load_timeout(self) -> float:
        return max(model.load_timeout for model in self.models)

    @property
    def spec(self) -> EngineSpec:
        """Only for a model whose files are here. A draft model is named by its source."""
        assert self.place.path is not None
        return EngineSpec(
            backend="fake" if self.first.source.kind == "fake" else "mlx",
            path=str(self.place.path),
            dtype=self.first.dtype,
            trust_remote_code=self.first.trust_remote_code,
            speculative=self.first.speculative,
            max_kv=self.first.max_kv,
        )

    def settings(self, share: int) -> EngineSettings:
        """The live settings when this engine may grow by `share` bytes."""
        wished = max(model.cache.prefix_bytes for model in self.models)
        prefix = min(wished, int(share * PREFIX_SHARE))
        return EngineSettings(
            context=max(model.context for model in self.models),
            concurrency=max(model.concurrency for model in self.models),
            kv_bytes=share - prefix,
            prefix_bytes=prefix,
            stall_target=self.stall_target,
            prefix_ttl=max(model.cache.ttl for model in self.models),
            disk=self._disk,
            kv=most_exact(model.kv for model in self.models),
            stored=most_exact(model.cache.stored for model in self.models),
            warm=self.warm if prefix else (),
            adapters=tuple(sorted({path for model in self.models for path in model.adapters.values()})),
            log=self.log,
        )

    @property
    def _disk(self) -> DiskSettings | None:
        """That of the model which asks for most, where its prefixes are kept in memory at all."""
        wished = max((model.cache for model in self.models), key=lambda cache: cache.disk_bytes)
        if not wished.disk_bytes or not wished.prefix_bytes:
            return None
        return DiskSettings(path=wished.path, bytes=wished.disk_bytes, ttl=wished.ttl, key=self.first.fingerprint)


def _warm(deployment: Deployment, model: ModelSpec) -> Iterator[ChatPrompt]:
    """The beginnings of conversations its file wants warm, as a request without any wishes begins them."""
    if not model.warm:
        return
    asked = GenerateRequest(model=model.name)
    kwargs = decide(deployment, Target(model.name, model, ()), asked, 0).template
    for text in model.warm:
        system = Message(role=model.family.roles.get("system", "system"), content=text.rstrip("\n"))  # type: ignore[arg-type]
        yield ChatPrompt(messages=(system,), template=model.template_text, kwargs=dict(kwargs))


def demands(deployment: Deployment, places: Mapping[str, Place]) -> dict[str, Demand]:
    """By engine; `places` holds each of the deployment's models by its fingerprint."""
    groups: dict[str, list[ModelSpec]] = {}
    for model in deployment.models.values():
        groups.setdefault(model.fingerprint, []).append(model)
    options = deployment.engine
    found = [
        Demand(
            models[0],
            tuple(models),
            places[fingerprint],
            options.blas,
            options.stall_target,
            tuple(prompt for model in models for prompt in _warm(deployment, model)),
            (deployment.observability.format, deployment.observability.level),
        )
        for fingerprint, models in groups.items()
    ]
    return {demand.fingerprint: demand for demand in found}


def terms(deployment: Deployment) -> Terms:
    """How the deployment shares out memory."""
    memory, served = deployment.memory, names(deployment)
    groups = [frozenset(served[name] for name in group) for group in memory.exclusive]
    return Terms(
        Policy(
            budget=max(0, memory.budget - (ENGINE_BASE_BYTES if spare(deployment) == "mlx" else 0)),
            reserve=memory.kv_reserve,
            keep_free=memory.keep_free,
            max_loaded=memory.max_loaded,
            exclusive=tuple(group for group in groups if len(group) > 1),
            spare=spare_bytes(deployment),
        ),
        min_resident=memory.queue.min_resident,
        starve_after=memory.queue.starve_after,
        max_wait=memory.queue.max_wait,
    )


def spare(deployment: Deployment) -> Literal["mlx", "fake"] | None:
    """Of which backend a blank process is kept, if one is."""
    if not deployment.engine.spare or not deployment.models:
        return None
    return "fake" if all(model.source.kind == "fake" for model in deployment.models.values()) else "mlx"


def spare_bytes(deployment: Deployment) -> int:
    """What the blank process is expected to take."""
    kind = spare(deployment)
    return 0 if kind is None else BASE_BYTES[kind]


def names(deployment: Deployment) -> dict[str, str]:
    """The engine that serves each model, by the model's name."""
    return {name: engine_of(model, deployment.engine.blas) for name, model in deployment.models.items()}


def engine_of(model: ModelSpec, blas: str) -> str:
    """The fingerprint of the process that serves a model: its weights, and what that process was started with."""
    return model.fingerprint if model.source.kind == "fake" else f"{model.fingerprint}:{blas}"


def sources(model: ModelSpec) -> Iterator[Source]:
    """What has to be on this machine for it."""
    yield model.source
    if model.speculative is not None and model.speculative.draft:
        yield parse(model.speculative.draft, "/", {})
