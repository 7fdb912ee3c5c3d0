"""What the registry knows of every engine, and what it may ask to be done. Values only, PURE."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from appliance.config.tuning import RetryLoad
from appliance.control.eviction import Policy
from appliance.control.failures import Failure
from appliance.control.speech import Speech
from appliance.errors import ApplianceError


class EngineState(StrEnum):
    COLD = "cold"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"


IN_MEMORY = (EngineState.LOADING, EngineState.READY, EngineState.DRAINING)


@dataclass(frozen=True, slots=True)
class Want:
    """What the models sharing one engine want of it, the strongest of each.

    `present` says whether the files are here, `bytes` what its process is expected to take, `measured` what it took
    the last time, before we started; `activations` are what its largest step and its adapters take more. `speech` is
    how its models are spoken to.
    """

    fingerprint: str
    model: str
    bytes: int
    activations: int = 0
    measured: int | None = None
    pinned: bool = False
    idle_unload: float = math.inf
    startup: bool = False
    present: bool = True
    retry: RetryLoad = RetryLoad()
    speech: tuple[Speech, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiter:
    """`alone` holds an engine without company; `resumed` has begun already and sits through what would pass, `hasty`
    can go elsewhere and sits through one failed load only. `keep` is for how many seconds it wants the model kept
    afterwards, None as the deployment says.
    """

    id: int
    model: str
    alone: bool = False
    resumed: bool = False
    hasty: bool = False
    keep: float | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Engine:
    """One fingerprint's engine. `number` is that of its process, so that news of an earlier one is not believed.

    `retired` engines are not in the deployment any more; `wanted` asks for a load though nobody waits. `solitary` is
    the lease that nobody may join; `deaths` in a row, and those with a single request, since somebody was served.
    `loaded_bytes` is what it took when it was loaded last, `pin` what somebody wants in place of the deployment's,
    `keep` how long the request that came last wants it kept. `leaving` engines end with their last lease.
    """

    want: Want
    state: EngineState = EngineState.COLD
    number: int = 0
    waiters: tuple[Waiter, ...] = ()
    leases: frozenset[int] = frozenset()
    solitary: int | None = None
    deaths: int = 0
    lonely: int = 0
    idle_since: float = 0.0
    ready_at: float = -math.inf
    loaded_bytes: int | None = None
    pin: bool | None = None
    keep: float | None = None
    leaving: bool = False
    fetching: bool = False
    stopping: bool = False
    wanted: bool = False
    retired: bool = False
    failure: Failure | None = None

    @property
    def bytes(self) -> int:
        """What is planned for it: as measured if it ever was loaded, else as expected, and room for a step."""
        sizes = (self.loaded_bytes, self.want.measured, self.want.bytes)
        return next(size for size in sizes if size is not None) + self.want.activations

    @property
    def worked(self) -> bool:
        """It was ready at least once."""
        return self.ready_at > -math.inf

    @property
    def pinned(self) -> bool:
        return self.want.pinned if self.pin is None else self.pin

    def stopped(self) -> "Engine":
        """As it is once its process was told to end."""
        return replace(self, state=EngineState.DRAINING, stopping=True)


Engines = Mapping[str, Engine]


@dataclass(frozen=True, slots=True)
class Terms:
    """How memory is shared out, and for how many seconds who may keep it or wait for it."""

    policy: Policy = Policy()
    min_resident: float = 0.0
    starve_after: float = math.inf
    max_wait: float = math.inf


@dataclass(frozen=True, slots=True)
class Override:
    """What somebody did to a model: `loaded` it (True), unloaded it (False); pinned it until a time."""

    pinned_until: float = -math.inf
    loaded: bool | None = None


@dataclass(frozen=True, slots=True)
class RolledBack:
    """`new` failed with this message, so `old` serves in its place."""

    old: Want
    new: Want
    message: str


@dataclass(frozen=True, slots=True)
class Registry:
    """`names` maps each model to the fingerprint that serves it; `spawned` is the newest process number, `sharing`
    the budget and the processes the last Share was for. `capacity` bytes of this machine engines have or could get,
    None where that was not measured; `aside` are those that processes without weights take of the budget. `overrides`
    holds, by model, what was done by hand and still is so.
    """

    engines: Engines = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    terms: Terms = Terms()
    capacity: int | None = None
    aside: int = 0
    former: Mapping[str, Want] = field(default_factory=dict)
    rolled: Mapping[str, RolledBack] = field(default_factory=dict)
    overrides: Mapping[str, Override] = field(default_factory=dict)
    spawned: int = 0
    sharing: tuple[int, ...] = ()
    closing: bool = False

    def put(self, engine: Engine) -> "Registry":
        """With this engine as it is now."""
        return replace(self, engines={**self.engines, engine.want.fingerprint: engine})

    def each(self, change: Callable[[Engine], Engine]) -> "Registry":
        """With every engine changed."""
        return replace(self, engines={fingerprint: change(engine) for fingerprint, engine in self.engines.items()})

    def of(self, number: int) -> Engine | None:
        """The engine whose process has this number, as long as that is in memory."""
        return next((e for e in self.engines.values() if e.number == number and e.state in IN_MEMORY), None)


# ---- effects
@dataclass(frozen=True, slots=True)
class Fetch:
    """Get the files; answer with on_fetched."""

    fingerprint: str


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start process `number`; answer with on_ready and, whenever it has ended, on_gone."""

    fingerprint: str
    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End process `number`; its on_gone still comes."""

    number: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Waiter `waiter` now holds a lease of the same id on process `number`."""

    waiter: int
    number: int


@dataclass(frozen=True, slots=True)
class Reject:
    waiter: int
    error: ApplianceError


@dataclass(frozen=True, slots=True)
class Share:
    """The set of engines in memory has changed: each may grow by `bytes` beyond its weights."""

    bytes: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call on_tick at this time; it replaces any earlier wish."""

    at: float


Act = Fetch | Spawn | Stop | Grant | Reject | Share
Effect = Act | WakeAt
Transition = tuple[Registry, list[Effect]]
