"""What is told of prompts that were cached: a header with each answer, the latest of a model to whoever runs it."""

from dataclasses import dataclass

from appliance.vocab.event import Reuse, Started

KEPT = 256
"""How many requests are remembered, of all models."""


@dataclass(frozen=True, slots=True)
class Reused:
    """How much of one request's prompt was cached; `time` is Unix seconds, `id` the request's."""

    id: str
    time: float
    model: str
    key: str | None
    started: Started

    @property
    def reuse(self) -> Reuse:
        return self.started.reuse or Reuse("off")


def header(started: Started) -> str:
    """As `hit=540/600 reason=differs`."""
    reason = started.reuse.reason if started.reuse is not None else "off"
    return f"hit={started.cached_tokens}/{started.prompt_tokens} reason={reason}"
