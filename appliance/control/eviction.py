"""Which engines to stop so that another one fits, or the arithmetic of why it cannot. Pure decision, logs nothing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from appliance.config.units import show_bytes


@dataclass(frozen=True, slots=True)
class Policy:
    """`budget` bytes for all engines, of which `reserve` are kept for keys, values and prefixes and the blank spare
    one takes `spare`; `keep_free` bytes of the machine are left to others. Of each group of `exclusive` fingerprints
    one at most is in memory.
    """

    budget: int = 0
    reserve: int = 0
    keep_free: int = 0
    max_loaded: int | None = None
    exclusive: tuple[frozenset[str], ...] = ()
    spare: int = 0

    @property
    def room(self) -> int:
        """Bytes of the budget that loaded models may take."""
        return self.budget - self.reserve - self.spare

    def rivals(self, fingerprint: str) -> frozenset[str]:
        """Those that are never in memory together with this one."""
        groups = (group for group in self.exclusive if fingerprint in group)
        return frozenset[str]().union(*groups) - {fingerprint}


@dataclass(frozen=True, slots=True)
class Resident:
    """An engine that holds memory now, and a model it serves. `idle_since` is when its last lease ended; `protected`
    ones came only just.
    """

    fingerprint: str
    bytes: int
    busy: bool
    pinned: bool
    leaving: bool
    idle_since: float
    protected: bool = False
    model: str = ""

    @property
    def free(self) -> bool:
        """It may be stopped now."""
        return not (self.busy or self.pinned or self.leaving or self.protected)

    @property
    def ending(self) -> bool:
        """It gives its memory back in a moment: nobody else has to go for that."""
        return self.leaving and not self.busy


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop these, then it fits; none where it fits already."""

    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """It will fit when engines that are busy or leaving now are done."""


@dataclass(frozen=True, slots=True)
class CannotFit:
    """It cannot fit as things are configured, or, `passing`, as long as others on this machine take what they take.

    `message` holds the numbers and what to change.
    """

    message: str
    passing: bool = False


Decision = Evict | Wait | CannotFit


def plan(
    model: str,
    need: int,
    resident: Sequence[Resident],
    policy: Policy,
    capacity: int | None = None,
    rivals: Collection[str] = (),
) -> Decision:
    """Decide how `need` bytes for `model` get room beside `resident`.

    `capacity` is what all engines have and could get of this machine, where it was measured. Least recently used
    first; never a busy or pinned one; nobody is stopped unless it then fits.
    """
    pinned = [engine for engine in resident if engine.pinned]
    if refusal := _refusal(model, need, pinned, policy, capacity, rivals):
        return refusal
    forced = [engine for engine in resident if engine.fingerprint in rivals]
    if not all(engine.free for engine in forced):
        return Wait()
    beside = [engine for engine in resident if engine not in forced]
    staying = [engine for engine in beside if not engine.ending]
    victims = _victims(*_lacking(need, staying, policy, capacity), staying)
    if victims is None or not (victims or forced or _fits(need, beside, policy, capacity)):
        return Wait()
    return Evict(tuple(engine.fingerprint for engine in (*forced, *victims)))


def _lacking(
    need: int, beside: Sequence[Resident], policy: Policy, capacity: int | None, more: int = 1
) -> tuple[int, int]:
    """Bytes and places that are missing for `need` bytes in `more` engines beside those."""
    places = 0 if policy.max_loaded is None else len(beside) + more - policy.max_loaded
    return need + sum(engine.bytes for engine in beside) - _room(policy, capacity), places


def _fits(need: int, beside: Sequence[Resident], policy: Policy, capacity: int | None) -> bool:
    return all(missing <= 0 for missing in _lacking(need, beside, policy, capacity))


def shrink(resident: Sequence[Resident], policy: Policy, capacity: int | None = None) -> tuple[str, ...]:
    """The idle engines to give up because what is in memory has become too much; none where that would not help."""
    staying = [engine for engine in resident if not engine.ending]
    victims = _victims(*_lacking(0, staying, policy, capacity, more=0), staying)
    return tuple(engine.fingerprint for engine in victims or ())


def apart(resident: Sequence[Resident], policy: Policy) -> tuple[str, ...]:
    """Those that have to go, now or with their last lease: another one of their exclusive group is in memory too. The
    one that stays is pinned, or else busy, or else was used last.
    """
    going: set[str] = set()
    for group in policy.exclusive:
        there = [e for e in resident if e.fingerprint in group and not e.leaving and e.fingerprint not in going]
        there.sort(key=lambda engine: (engine.pinned, engine.busy, engine.idle_since))
        going.update(engine.fingerprint for engine in there[:-1])
    return tuple(sorted(going))


def _room(policy: Policy, capacity: int | None) -> int:
    """Bytes of weights that may be in memory."""
    room = policy.room
    return min(room, capacity - policy.keep_free) if policy.keep_free and capacity is not None else room


def _victims(missing: int, places: int, resident: Sequence[Resident]) -> list[Resident] | None:
    """The least recently used idle engines that free `missing` bytes and `places`, without those that turn out
    unneeded.
    """
    if missing <= 0 and places <= 0:
        return []
    chosen: list[Resident] = []
    for engine in sorted((e for e in resident if e.free), key=lambda engine: engine.idle_since):
        if missing <= 0 and places <= 0:
            break
        chosen.append(engine)
        missing, places = missing - engine.bytes, places - 1
    if missing > 0 or places > 0:
        return None
    for engine in reversed(chosen[:-1]):
        if missing + engine.bytes <= 0 and places + 1 <= 0:
            chosen.remove(engine)
            missing, places = missing + engine.bytes, places + 1
    return chosen


def _refusal(
    model: str,
    need: int,
    pinned: Sequence[Resident],
    policy: Policy,
    capacity: int | None,
    rivals: Collection[str],
) -> CannotFit | None:
    held = sum(engine.bytes for engine in pinned)
    names = ", ".join(sorted(engine.model for engine in pinned))
    kept_apart = ", ".join(sorted(engine.model for engine in pinned if engine.fingerprint in rivals))
    if need + held > policy.room:
        return CannotFit(_arithmetic(model, need, held, names, policy))
    if policy.max_loaded is not None and len(pinned) >= policy.max_loaded:
        return CannotFit(
            f"{model} cannot be loaded: memory.max_loaded is {policy.max_loaded} and as many models are pinned:"
            f" unpin {names} or raise memory.max_loaded"
        )
    if kept_apart:
        return CannotFit(
            f"{model} cannot be loaded: memory.exclusive keeps it apart from {kept_apart}, which is pinned:"
            f" unpin {kept_apart}"
        )
    if need + held > _room(policy, capacity):
        assert capacity is not None
        return CannotFit(
            f"{model} needs {show_bytes(need)} of memory; this machine has {show_bytes(capacity)} for models now, of"
            f" which memory.keep_free leaves {show_bytes(policy.keep_free)} to others{_of_pinned(held)}:"
            " end other programs or lower memory.keep_free",
            passing=True,
        )
    return None


def _arithmetic(model: str, need: int, held: int, pinned: str, policy: Policy) -> str:
    room = policy.room
    kept = f"{show_bytes(policy.reserve)} of it, memory.kv_reserve, are kept for caches"
    kept += f", {show_bytes(policy.spare)} for the spare engine" if policy.spare else ""
    advice = f"unpin {pinned} or raise memory.budget" if held and need <= room else "raise memory.budget"
    return (
        f"{model} needs {show_bytes(need)} of memory; memory.budget {show_bytes(policy.budget)} leaves"
        f" {show_bytes(room)} for models ({kept}){_of_pinned(held)}: {advice}"
    )


def _of_pinned(size: int) -> str:
    return f", of which pinned models hold {show_bytes(size)}" if size else ""


def share(budget: int, resident_bytes: int, engines: int) -> int:
    """What each of `engines` engines may grow by, in bytes, when their weights take `resident_bytes`."""
    return max(0, budget - resident_bytes) // max(1, engines)
