"""Which engines to stop so that another one fits, or the arithmetic of why it cannot. Pure decision, logs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

KV_RESERVE = 0.2
"""The part of the budget no weights may take: keys, values and prefixes of all engines grow in what is left."""

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Resident:
    """An engine that holds memory now. `idle_since` is when its last lease ended."""

    fingerprint: str
    bytes: int
    busy: bool
    pinned: bool
    leaving: bool
    idle_since: float


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop these, then it fits; none where it fits already."""

    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """It will fit when engines that are busy or leaving now are done."""


@dataclass(frozen=True, slots=True)
class CannotFit:
    """It can never fit as things are configured; `message` holds the numbers and what to change."""

    message: str


Decision = Evict | Wait | CannotFit


def plan(model: str, need: int, resident: Sequence[Resident], budget: int) -> Decision:
    """Decide how `need` bytes for `model` get room beside `resident` in `budget` bytes.

    Least recently used first; never a busy or pinned one; nobody is stopped unless it then fits.
    """
    room = int(budget * (1 - KV_RESERVE))
    pinned = sum(engine.bytes for engine in resident if engine.pinned)
    if need + pinned > room:
        return CannotFit(_arithmetic(model, need, pinned, budget))
    missing = need + sum(engine.bytes for engine in resident) - room
    if missing <= 0:
        return Evict(())
    victims = _victims(missing, resident)
    return Wait() if victims is None else Evict(tuple(engine.fingerprint for engine in victims))


def _victims(missing: int, resident: Sequence[Resident]) -> list[Resident] | None:
    """The least recently used idle engines that free `missing` bytes, without those that turn out unneeded."""
    idle = sorted(
        (e for e in resident if not (e.busy or e.pinned or e.leaving)), key=lambda engine: engine.idle_since
    )
    chosen: list[Resident] = []
    for engine in idle:
        if missing <= 0:
            break
        chosen.append(engine)
        missing -= engine.bytes
    if missing > 0:
        return None
    for engine in reversed(chosen[:-1]):
        if missing + engine.bytes <= 0:
            chosen.remove(engine)
            missing += engine.bytes
    return chosen


def _arithmetic(model: str, need: int, pinned: int, budget: int) -> str:
    room = budget * (1 - KV_RESERVE)
    kept = f"{KV_RESERVE:.0%} of it is kept for caches"
    taken = f", of which pinned models hold {_gib(pinned)}" if pinned else ""
    advice = "unpin a model or raise memory.budget" if pinned and need <= room else "raise memory.budget"
    return (
        f"{model} needs {_gib(need)} of memory; memory.budget {_gib(budget)} leaves {_gib(room)} for models"
        f" ({kept}){taken}: {advice}"
    )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def share(budget: int, resident_bytes: int, engines: int) -> int:
    """What each of `engines` engines may grow by, in bytes, when their weights take `resident_bytes`."""
    return max(0, budget - resident_bytes) // max(1, engines)
