"""One engine process as the server sees it: what it serves, who holds it, and what it was last told."""

import asyncio
from dataclasses import dataclass, field

from appliance.config.deployment import ModelSpec
from appliance.control.demand import Demand
from appliance.control.handle import EngineHandle
from appliance.control.lease import Lease
from appliance.control.speech import Mismatches, Speech
from appliance.control.status import Observed
from appliance.vocab.spec import EngineSettings

STOP_GRACE_SECONDS = 10.0
"""Enough to write what the next engine would compute again."""


@dataclass(slots=True)
class Run:
    """`held` are the leases that hold it now, `mixed` those of them that ever had company; `taken` the bytes of
    memory when last measured. `lonely`: it was lost with a single lease that never had company. `saved` seconds of
    its start were over before it was asked for. `spoken` is what of a model's way to speak does not agree, None
    while that is being asked.
    """

    demand: Demand
    started: float
    ready: float | None = None
    handle: EngineHandle | None = None
    stopping: bool = False
    grace: float = STOP_GRACE_SECONDS
    settings: EngineSettings | None = None
    held: set[int] = field(default_factory=set)
    mixed: set[int] = field(default_factory=set)
    taken: int | None = None
    lonely: bool = False
    saved: float = 0.0
    listening: asyncio.Task[None] | None = None
    spoken: dict[Speech, Mismatches | None] = field(default_factory=dict)

    def join(self, lease: int) -> None:
        """One more holds it."""
        if self.held:
            self.mixed |= {*self.held, lease}
        self.held.add(lease)

    def leave(self, lease: int) -> None:
        """One holds it no more."""
        self.held.discard(lease)
        self.mixed.discard(lease)

    def lost(self) -> None:
        """It answers no more."""
        self.lonely = len(self.held) == 1 and not self.held & self.mixed

    def close(self) -> None:
        """Ask it to end."""
        self.stopping = True
        if self.handle is not None:
            self.handle.close()

    def hurry(self) -> None:
        """Once it is asked to end, kill it."""
        self.grace = 0.0
        if self.stopping and self.handle is not None:
            self.handle.kill()

    def configure(self, settings: EngineSettings) -> None:
        """Tell it its settings where they are new to it."""
        if self.handle is not None and settings != self.settings:
            self.settings = settings
            self.handle.configure(settings)

    def mismatches(self) -> dict[str, str]:
        """By model, why its template and its dialects do not agree, as far as that is known."""
        found = {model.name: self.spoken.get(Speech.of(model)) or {} for model in self.demand.models}
        return {name: "; ".join(messages.values()) for name, messages in found.items() if messages}

    def observed(self, download: tuple[str, int, int] | None) -> Observed:
        """What is known of it now, with how far its download is."""
        handle = self.handle
        return Observed(
            pid=handle.pid if handle else None,
            load=handle.progress if handle and handle.info is None else None,
            download=download,
            info=handle.info if handle else None,
            taken=self.taken,
            gauges=handle.gauges if handle and handle.info else None,
            mismatches=self.mismatches(),
        )

    def lease(self, id: int, asked_for: ModelSpec, asked: float, now: float) -> Lease:
        """What a request gets that asked at `asked` and joined just now."""
        assert self.handle is not None
        assert self.handle.info is not None
        assert self.ready is not None
        loading = max(0.0, self.ready - max(asked, self.started))
        same = asked_for.fingerprint == self.demand.first.fingerprint
        named = (model for model in self.demand.models if model.name == asked_for.name)
        model = asked_for if same else next(named, asked_for)
        queued = max(0.0, now - asked - loading)
        return Lease(self.handle, model, self.handle.info, queued, loading, id, lambda: id not in self.mixed)
