"""What every handler of one server shares."""

import collections
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from appliance.control.events import Events
from appliance.control.observer import Observer
from appliance.control.running import Running
from appliance.control.supervisor import Supervisor
from appliance.server.background import Background
from appliance.server.batch_store import BatchStore
from appliance.server.door import Door
from appliance.server.file_store import FileStore
from appliance.server.in_flight import InFlight
from appliance.server.metrics import Counter, Histogram
from appliance.server.response_store import ResponseStore
from appliance.server.reused import KEPT, Reused
from appliance.server.traffic import Traffic

_TTFT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


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

    def families(self) -> list[Counter | Histogram]:
        """In the order they are shown."""
        tokens = [self.prompt, self.cached, self.drafted, self.generated]
        return [self.requests, *tokens, self.no_calls, self.first_token, self.seconds]


@dataclass(slots=True)
class Context:
    """Shared by all handlers; `started` is Unix seconds, `file` the deploy file, `socket` the admin API's."""

    file: Path
    socket: Path
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
