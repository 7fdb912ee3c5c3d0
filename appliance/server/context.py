"""What every handler of one server shares."""

import collections
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.control.events import Events
from appliance.control.observer import Observer
from appliance.control.running import Running
from appliance.control.status import Condition, ModelStatus
from appliance.control.supervisor import Supervisor
from appliance.server.background import Background
from appliance.server.batch_store import BatchStore
from appliance.server.door import Door
from appliance.server.file_store import FileStore
from appliance.server.in_flight import InFlight
from appliance.server.metrics import Counter, Histogram, Reading
from appliance.server.response_store import ResponseStore
from appliance.server.reused import KEPT, Reused
from appliance.server.traffic import Traffic

_TTFT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


def _degraded(condition: Condition) -> bool:
    return condition.name == "Degraded" and condition.holds


_ENGINES = {
    "loads": "Engines that were loaded.",
    "unloads": "Engines that were stopped.",
    "deaths": "Engines that ended by themselves.",
    "load_failures": "Loads that failed.",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """What the handlers count."""

    requests: Counter = field(
        default_factory=lambda: Counter(
            "appliance_requests_total",
            "Requests answered; status 499: the client left.",
            ("endpoint", "model", "status"),
        )
    )
    prompt: Counter = field(
        default_factory=lambda: Counter("appliance_prompt_tokens_total", "Prompt tokens.", ("model",))
    )
    cached: Counter = field(
        default_factory=lambda: Counter(
            "appliance_cached_tokens_total", "Prompt tokens that were not computed again.", ("model",)
        )
    )
    drafted: Counter = field(
        default_factory=lambda: Counter(
            "appliance_draft_tokens_total",
            "Tokens drafted by speculative decoding, by outcome.",
            ("model", "outcome"),
        )
    )
    generated: Counter = field(
        default_factory=lambda: Counter("appliance_generated_tokens_total", "Tokens generated.", ("model",))
    )
    first_token: Histogram = field(
        default_factory=lambda: Histogram(
            "appliance_time_to_first_token_seconds", "From request to first token.", ("model",), _TTFT
        )
    )
    no_calls: Counter = field(
        default_factory=lambda: Counter(
            "appliance_call_warnings_total",
            "Times that something looked like a tool call and became text.",
            ("model", "reason"),
        )
    )
    seconds: Histogram = field(
        default_factory=lambda: Histogram(
            "appliance_generation_seconds", "From request to last token.", ("model",), _SECONDS
        )
    )

    def families(self) -> list[Counter | Histogram | Reading]:
        """In the order they are shown."""
        tokens = [self.prompt, self.cached, self.drafted, self.generated]
        return [self.requests, *tokens, self.no_calls, self.first_token, self.seconds]


@dataclass(slots=True)
class Context:
    """Shared by all handlers; `started` is Unix seconds, `file` the deploy file."""

    file: Path
    running: Running
    supervisor: Supervisor
    observer: Observer
    events: Events
    door: Door
    version: str
    started: int
    files: FileStore
    batches: BatchStore
    counted: Counted = field(default_factory=Counted)
    in_flight: InFlight = field(default_factory=InFlight)
    responses: ResponseStore = field(default_factory=ResponseStore)
    background: Background = field(default_factory=Background)
    arriving: collections.Counter[str | None] = field(default_factory=collections.Counter)
    """Requests by key that are not in flight yet: their bodies are being read."""
    arriving_bytes: collections.Counter[str | None] = field(default_factory=collections.Counter)
    """What those bodies may hold."""
    begun: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    """When the latest generations left the queue, by the monotonic clock."""
    reused: deque[Reused] = field(default_factory=lambda: deque(maxlen=KEPT))
    """How much of the latest prompts was cached, newest last."""
    traffic: Traffic = field(default_factory=Traffic)
    draining: bool = False

    def families(self) -> Iterable[Counter | Histogram | Reading]:
        """All that `/metrics` shows."""
        return [*self.counted.families(), *self._readings()]

    def _readings(self) -> list[Reading]:
        return [
            Reading(
                "appliance_generations_running",
                "Generations in flight.",
                (),
                lambda: [((), len(self.in_flight))],
            ),
            Reading(
                "appliance_config_generation",
                "Number of the deployment that is running.",
                (),
                lambda: [((), self.running.generation)],
            ),
            Reading(
                "appliance_config_last_reload_success",
                "1 unless the file was refused when it was last read.",
                (),
                lambda: [((), float(self.running.last.status != "rejected"))],
            ),
            Reading(
                "appliance_config_file_matches_running",
                "0 when the file on disk is not what is running: refused, rolled back, or not watched.",
                (),
                lambda: [((), float(self.running.matches))],
            ),
            Reading(
                "appliance_model_state",
                "1 for the state each model is in.",
                ("model", "state"),
                lambda: [((status.name, status.state.value), 1) for status in self._present()],
            ),
            Reading(
                "appliance_model_waiting",
                "Requests that wait for this model to be loaded.",
                ("model",),
                lambda: [((status.name,), status.waiting) for status in self._present()],
            ),
            Reading(
                "appliance_model_leases",
                "Requests that hold this model's engine.",
                ("model",),
                lambda: [((status.name,), status.leases) for status in self._present()],
            ),
            Reading(
                "appliance_model_memory_bytes",
                "Memory the engine of this model takes, when last measured.",
                ("model",),
                lambda: [((s.name,), s.taken) for s in self._present() if s.taken is not None],
            ),
            Reading(
                "appliance_model_degraded",
                "Whether this model serves less than its deploy file asks for, and in one word why.",
                ("model", "reason"),
                lambda: [((s.name, c.reason), 1) for s in self._present() for c in s.conditions if _degraded(c)],
            ),
            Reading(
                "appliance_peer_up",
                "Whether this peer is well, as far as is known.",
                ("peer",),
                lambda: [((name,), float(name not in self.traffic.peers.down())) for name in self._peers()],
            ),
            *(self._engines(kind, text) for kind, text in _ENGINES.items()),
            Reading("appliance_build_info", "The version that runs.", ("version",), lambda: [((self.version,), 1)]),
        ]

    def _engines(self, kind: str, text: str) -> Reading:
        counts = self.supervisor.counts
        return Reading(
            f"appliance_engine_{kind}_total",
            text,
            ("model",),
            lambda: [((model,), count) for (what, model), count in counts.items() if what == kind],
            "counter",
        )

    def _peers(self) -> Iterable[str]:
        return self.running.deployment.routing.peers

    def _present(self) -> list[ModelStatus]:
        return [status for status in self.supervisor.status() if not status.retired]
