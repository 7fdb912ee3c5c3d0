"""What one layer of the file lays over those below it: soft values and hard rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from appliance.vocab.request import SamplingPatch

EMPTY: Mapping[str, Any] = MappingProxyType({})


def empty() -> Mapping[str, Any]:
    return EMPTY


@dataclass(frozen=True, slots=True)
class Policy:
    """Hard rules on sampling: later layers may only tighten them."""

    lock: Mapping[str, Any] = field(default_factory=empty)
    clamp: Mapping[str, tuple[float, float]] = field(default_factory=empty)
    forbid: Mapping[str, Literal["strip", "reject"]] = field(default_factory=empty)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Request-time values a profile, alias, route or model lays over those below it. `adapter` is the name of one of
    the model's, "" for none.
    """

    sampling: SamplingPatch = SamplingPatch()
    template: Mapping[str, Any] = field(default_factory=empty)
    policy: Policy = Policy()
    adapter: str | None = None
