"""The frozen types of a resolved deployment: nothing is read from files, environment or clock past this point.

Durations are seconds (`math.inf` for `never`), sizes are bytes, paths are absolute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from appliance.config.access import Security
from appliance.config.layers import EMPTY as EMPTY
from appliance.config.layers import Overlay as Overlay
from appliance.config.layers import Policy as Policy
from appliance.config.layers import empty
from appliance.config.operations import Hook, Observability, Storage
from appliance.config.problem import Problem
from appliance.config.routing import Routing
from appliance.config.tuning import Quantized, RetryLoad
from appliance.vocab.request import SamplingPatch
from appliance.vocab.spec import DType, KvForm, Speculative


@dataclass(frozen=True, slots=True)
class TcpListen:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixListen:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class FdListen:
    fd: int

    def __str__(self) -> str:
        return f"fd:{self.fd}"


Listen = TcpListen | UnixListen | FdListen


@dataclass(frozen=True, slots=True)
class Tls:
    """Absolute paths."""

    cert: str
    key: str
    client_ca: str | None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`time_zone` None is the machine's; no `trusted_hosts` answers to all."""

    listen: tuple[Listen, ...]
    request_timeout: float
    first_token_timeout: float
    idle_timeout: float
    drain_timeout: float
    heartbeat: float
    max_body: int
    unknown_fields: Literal["warn", "reject"]
    watch: bool
    quiet: float
    tls: Tls | None = None
    apis: tuple[str, ...] = ("openai", "anthropic", "ollama")
    time_zone: str | None = None
    cors: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`blas` is `auto`, `off` or the path of a shared library preloaded into engines on Linux CPU."""

    blas: str
    stall_target: float
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests that wait, for memory or a row: how many, and the bytes of their bodies; times in seconds."""

    max: int = 256
    max_bytes: int = 512 << 20
    max_wait: float = 300.0
    min_resident: float = 20.0
    starve_after: float = 30.0


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """`budget` is bytes of this machine's memory all engines together may take.

    `keep_free` are bytes left to others, `kv_reserve` bytes of the budget no weights may take. `max_loaded` None is
    without end; of each group of `exclusive` one model at most is in memory.
    """

    budget: int
    keep_free: int = 0
    kv_reserve: int = 0
    max_loaded: int | None = None
    exclusive: tuple[frozenset[str], ...] = ()
    queue: Queue = Queue()


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """`prefix_bytes` 0 keeps no prefixes, `disk_bytes` 0 none on disk. `path` is absolute, `ttl` seconds, `stored`
    the form of kept keys and values (None: that of running ones).
    """

    name: str
    prefix_bytes: int
    disk_bytes: int = 0
    path: str = ""
    ttl: float = 604800.0
    share: Literal["key", "all"] = "key"
    stored: KvForm | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's files come from. `kind` is the row of the source table in `appliance.models`.

    path: `ref` is an absolute directory; gguf: an absolute file; hf: `owner/name` with `revision`;
    pypi: `distribution==version:member.gguf#sha256=…` ; fake: an absolute script file; peer: the peer's name of it.
    `text` is what the user wrote.
    """

    kind: Literal["path", "gguf", "hf", "pypi", "fake", "peer"]
    ref: str
    text: str
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class Mode:
    """A family's sampling for one state of its template switches."""

    name: str
    when: Mapping[str, Any]
    sampling: SamplingPatch


@dataclass(frozen=True, slots=True)
class Family:
    """What a model family needs; `generic` where none matched.

    `switch` is what its template calls `enable_thinking`, `effort` the template's variables by reasoning effort.
    """

    name: str
    template_kwargs: Mapping[str, Any] = field(default_factory=empty)
    roles: Mapping[str, str] = field(default_factory=empty)
    stop_tokens: tuple[str, ...] = ()
    sampling: SamplingPatch = SamplingPatch()
    modes: tuple[Mode, ...] = ()
    tool_dialect: str = "none"
    reasoning_dialect: str = "none"
    capabilities: Mapping[str, Any] = field(default_factory=empty)
    switch: str = "enable_thinking"
    effort: Mapping[str, Mapping[str, Any]] = field(default_factory=empty)


ModelKind = Literal["text", "embedding", "rerank", "vision", "transcription", "speech"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One servable model. `context` is what the file allows; the checkpoint may allow less.

    `checkpoint` is the sampling of the checkpoint's generation_config.json where its files are present.
    `own` is the model's own overlay, `profile` the name of the one it lays under itself. `warm` are the texts whose
    prefixes are computed at load, `adapters` absolute directories by name. `reckoned` is about how many bytes
    the model takes when loaded, where its source is a short name of the catalogue that says so.
    """

    name: str
    source: Source
    dtype: DType
    trust_remote_code: bool
    load: Literal["lazy", "startup"]
    pin: bool
    idle_unload: float
    context: int
    concurrency: int
    cache: CachePolicy
    load_timeout: float
    own: Overlay
    profile: str | None
    template_text: str | None
    family: Family
    checkpoint: SamplingPatch
    fingerprint: str
    extends: str | None = None
    kind: ModelKind = "text"
    retry_load: RetryLoad = RetryLoad()
    kv: KvForm | None = None
    max_kv: int | None = None
    quantize: Quantized | None = None
    speculative: Speculative | None = None
    warm: tuple[str, ...] = ()
    adapters: Mapping[str, str] = field(default_factory=empty)
    reckoned: int | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name for a model; `name` may be a glob. `model` is a model's name, never another alias.

    `profiles` are those it lays under its own values, strongest first: several where it stands for another alias.
    """

    name: str
    model: str
    own: Overlay
    profiles: tuple[str, ...]
    hidden: bool

    @property
    def profile(self) -> str | None:
        """The strongest of its profiles."""
        return self.profiles[0] if self.profiles else None


@dataclass(frozen=True, slots=True)
class Deployment:
    """The whole resolved file. `defaults` are layered under every model.

    `digest` is that of the bytes of `files`, all that were read: a changed comment changes it and nothing else.
    `sources` are their contents, without those of `${file:…}`, which may be secret.
    `warnings` are problems that do not keep it from being used. `listen_at` are problems without words, one where
    each address of `server.listen` stands: only the machine can say whether it can be had.
    """

    server: ServerSettings
    engine: EngineOptions
    memory: MemorySettings
    defaults: Overlay
    profiles: Mapping[str, Overlay]
    models: Mapping[str, ModelSpec]
    aliases: Mapping[str, Alias]
    caches: Mapping[str, CachePolicy]
    digest: str = field(compare=False)
    security: Security = Security()
    routing: Routing = Routing()
    storage: Storage = Storage()
    hooks: tuple[Hook, ...] = ()
    observability: Observability = Observability()
    files: tuple[str, ...] = field(default=(), compare=False)
    sources: Mapping[str, bytes] = field(default_factory=empty, compare=False, repr=False)
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    listen_at: tuple[Problem, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """What a requested name stands for: the model and, strongest first, the overlays above it."""

    asked: str
    model: ModelSpec
    overlays: tuple[Overlay, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One parameter a policy changed, for the `X-Appliance-Params` header."""

    param: str
    how: Literal["locked", "clamped", "stripped"]
    asked: Any
    given: Any

    def __str__(self) -> str:
        return f"{self.param}={self.how}({self.asked}>{self.given})"
