"""How policies combine: only by tightening, in any order; what cannot be combined is a conflict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from appliance.config.layers import Policy

Rule = tuple[int, Literal["lock", "clamp"]]
"""Which layer, and which of its rules."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two rules (`second` of the later layer) that do not agree about `param`."""

    kind: Literal["locks", "outside", "empty"]
    param: str
    first: Rule
    second: Rule
    message: str


def tighten(layers: Sequence[Policy]) -> tuple[Policy, tuple[Conflict, ...]]:
    """Clamps intersect, forbids add up (`reject` beats `strip`), locks must agree and lie inside the clamps."""
    conflicts: list[Conflict] = []
    locks = _locks(layers, conflicts)
    clamps = _clamps(layers, conflicts)
    for param, (value, layer) in locks.items():
        if param in clamps:
            conflicts += _outside(param, value, layer, clamps[param])
    forbid: dict[str, Literal["strip", "reject"]] = {}
    for policy in layers:
        for param, how in policy.forbid.items():
            forbid[param] = "reject" if "reject" in (how, forbid.get(param)) else "strip"
    combined = Policy(
        lock=MappingProxyType({param: value for param, (value, _) in locks.items()}),
        clamp=MappingProxyType({param: (bounds.low, bounds.high) for param, bounds in clamps.items()}),
        forbid=MappingProxyType(forbid),
    )
    return combined, tuple(conflicts)


@dataclass(slots=True)
class _Bounds:
    low: float = -math.inf
    high: float = math.inf
    low_layer: int = 0
    high_layer: int = 0


def _locks(layers: Sequence[Policy], conflicts: list[Conflict]) -> dict[str, tuple[Any, int]]:
    locks: dict[str, tuple[Any, int]] = {}
    for i, policy in enumerate(layers):
        for param, value in policy.lock.items():
            held, first = locks.setdefault(param, (value, i))
            if held != value:
                message = f"locked to {show(value)} and to {show(held)}"
                conflicts.append(Conflict("locks", param, (first, "lock"), (i, "lock"), message))
    return locks


def _clamps(layers: Sequence[Policy], conflicts: list[Conflict]) -> Mapping[str, _Bounds]:
    clamps: dict[str, _Bounds] = {}
    for i, policy in enumerate(layers):
        for param, (low, high) in policy.clamp.items():
            bounds = clamps.setdefault(param, _Bounds())
            was_empty = bounds.low > bounds.high
            if low > bounds.low:
                bounds.low, bounds.low_layer = low, i
            if high < bounds.high:
                bounds.high, bounds.high_layer = high, i
            if bounds.low > bounds.high and not was_empty:
                first, second = sorted((bounds.low_layer, bounds.high_layer))
                message = f"nothing lies between {show(bounds.low)} and {show(bounds.high)}"
                conflicts.append(Conflict("empty", param, (first, "clamp"), (second, "clamp"), message))
    return clamps


def _outside(param: str, value: Any, layer: int, bounds: _Bounds) -> list[Conflict]:
    if bounds.low <= value <= bounds.high:
        return []
    bound_layer = bounds.low_layer if value < bounds.low else bounds.high_layer
    message = f"the lock {show(value)} lies outside [{show(bounds.low)}, {show(bounds.high)}]"
    rules: list[Rule] = sorted([(layer, "lock"), (bound_layer, "clamp")])
    return [Conflict("outside", param, rules[0], rules[1], message)]


def show(value: Any) -> str:
    """A value as a user writes it: 1 and not 1.0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(list(value)) if isinstance(value, tuple) else str(value)
