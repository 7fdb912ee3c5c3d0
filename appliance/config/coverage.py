"""Which rules those before them leave nothing to, one of them or several together. PURE.

A condition is a box: of each of its dimensions the values with which it holds. What earlier boxes leave of a later
one are boxes again, and where none is left the rule is dead. Dimensions are taken to be independent; where they are
not, a dead rule may be missed, and a living one is never called dead.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.config.condition import STATES, Condition
from appliance.config.globs import contains, is_glob
from appliance.config.units import Bound

Dimension = tuple[Hashable, ...]
Box = Mapping[Dimension, frozenset[Hashable]]
"""A dimension that is not in it has all its values."""
MOST_STEPS = 2_000
"""Beyond so many nothing is said of a rule."""
_BOTH = frozenset({False, True})
_DAY = frozenset(range(24 * 60))


@dataclass(frozen=True, slots=True)
class Asked:
    """One rule: its condition, the virtual names it is about, the keys it holds for (None: no key), and the name of
    its first target, in whose tokens prompts are counted.
    """

    when: Condition
    names: frozenset[str]
    keys: frozenset[str | None]
    first: str


def space(rules: Iterable[Asked], names: Collection[str], keys: Collection[str]) -> "Space":
    """That in which these rules lie."""
    points: dict[Dimension, frozenset[float]] = {}
    texts: dict[Dimension, frozenset[str]] = {}
    efforts = frozenset({""})
    for rule in rules:
        efforts |= rule.when.effort
        for dimension, bound in _bounds(rule):
            most, step = (100.0, 0.5) if bound.unit else (math.inf, 1.0)
            around = (0.0, bound.count - step, float(bound.count), bound.count + step)
            points[dimension] = points.get(dimension, frozenset()) | {at for at in around if 0 <= at <= most}
        for dimension, text in _texts(rule.when):
            texts[dimension] = texts.get(dimension, frozenset()) | {text}
    return Space(frozenset(names), frozenset({None, *keys}), efforts, points, texts)


@dataclass(frozen=True, slots=True)
class Space:
    """All there may be: `points` are numbers of which one lies in every part that bounds tell apart, `efforts` those
    that are spoken of, and "" for others and none.
    """

    names: frozenset[str]
    keys: frozenset[str | None]
    efforts: frozenset[str]
    points: Mapping[Dimension, frozenset[float]]
    texts: Mapping[Dimension, frozenset[str]]

    def dead(self, box: Box, earlier: Sequence[Box]) -> bool:
        """Whether the earlier ones take all that this one would."""
        return not self._left(box, earlier, iter(range(MOST_STEPS)))

    def _left(self, box: Box, earlier: Sequence[Box], steps: Iterator[int]) -> bool:
        """Whether anything is left of a box."""
        if next(steps, None) is None or not all(box.values()):
            return True
        for place, taken in enumerate(earlier):
            if any(not self._of(box, each) & values for each, values in taken.items()):
                continue
            for each, values in taken.items():
                here = self._of(box, each)
                if here - values and self._left({**box, each: here - values}, earlier[place + 1 :], steps):
                    return True
                box = {**box, each: here & values}
            return False
        return True

    def _of(self, box: Box, dimension: Dimension) -> frozenset[Hashable]:
        return box[dimension] if dimension in box else self._all(dimension)

    def _all(self, dimension: Dimension) -> frozenset[Hashable]:
        match dimension[0]:
            case "model":
                return self.names
            case "key":
                return self.keys
            case "time":
                return _DAY
            case "effort":
                return self.efforts
            case "state":
                return frozenset(STATES)
            case "tokens" | "queue" | "load":
                return self.points[dimension]
            case _:
                return _BOTH

    def box(self, rule: Asked) -> Box:
        """Where one of the rules holds."""
        when, found = rule.when, dict[Dimension, frozenset[Hashable]]()
        found["model",] = rule.names
        found["key",] = rule.keys if when.key is None else rule.keys & {when.key}
        if when.time is not None:
            found["time",] = frozenset(minute for minute in _DAY if when.time.holds(minute))
        if when.effort:
            found["effort",] = when.effort
        for each in when.has:
            found["has", each] = frozenset({True})
        for dimension, bound in _bounds(rule):
            found[dimension] = frozenset(at for at in self.points[dimension] if bound.holds(at))
        for model in {*when.state, *([when.warm] if when.warm is not None else [])}:
            found["state", model] = when.states(model)
        for dimension, text in _texts(when):
            found[*dimension, text] = frozenset({True})
            for other in self.texts[dimension] - {text}:
                if (inside := contains(other, text)) or not is_glob(text):
                    found[*dimension, other] = frozenset({inside})
        return found


def _bounds(rule: Asked) -> Iterator[tuple[Dimension, Bound]]:
    when = rule.when
    if when.prompt_tokens is not None:
        yield ("tokens", rule.first), when.prompt_tokens
    yield from ((("queue", model), bound) for model, bound in when.queue.items())
    yield from ((("load", model), bound) for model, bound in when.load.items())


def _texts(when: Condition) -> Iterator[tuple[Dimension, str]]:
    if when.endpoint is not None:
        yield ("endpoint",), when.endpoint
    yield from ((("header", name), text) for name, text in when.header.items())
