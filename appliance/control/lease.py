"""What a request holds while it is served: one engine, and the facts it was given with it."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.config.deployment import ModelSpec
from appliance.control.handle import EngineHandle
from appliance.vocab.spec import ModelInfo


@dataclass(frozen=True, slots=True)
class Lease:
    """One request's hold on a loaded engine.

    `model` is the spec asked for, or the present one of that name where its engine has changed meanwhile.
    `load_seconds` of the wait were loading (0: it was warm), `queue_seconds` everything else.
    """

    handle: EngineHandle
    model: ModelSpec
    info: ModelInfo
    queue_seconds: float
    load_seconds: float
    id: int
    alone: Callable[[], bool]
    """Whether this request had no company on its engine, from its grant to the end or to now."""
