"""Which rows decode together: those of like length, where padding would cost more than one more pass. PURE.

Rows that decode together form a rectangle as wide as the longest. A step reads it all, and the weights once for each
rectangle; of a mixture of experts those that its rows choose.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from appliance.engine.ledger import tokens_of

_PADDING = 2
"""Padding is read by every step, and copied whenever a row joins or leaves."""
_WORTH_IT = 1.25
"""Rows change groups only where steps cost so many times what they would cost then: moving is a copy of its own."""

Group = list[int]
"""Ids of rows."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Weights of `total` bytes, of which each token chooses a `share`."""

    total: int = 0
    share: float = 1.0

    def read(self, rows: int) -> int:
        """What a pass over so many rows reads of them, if each chooses for itself and all are as likely: an expert
        that a token passes over with probability 1 - share is not read where all rows do.
        """
        return round(self.total * (1 - (1 - self.share) ** rows))


NO_EXPERTS = Experts()


@dataclass(frozen=True, slots=True)
class Costs:
    """Bytes that are read: `pass_bytes` by each pass, the weights that every token needs, of `experts` those that its
    rows choose, `token_bytes` for a token of a row.
    """

    pass_bytes: int
    token_bytes: int
    experts: Experts = NO_EXPERTS

    def of(self, lengths: Sequence[int]) -> int:
        """What one group of these rows costs in a step."""
        return self.rectangle(len(lengths), max(lengths), sum(lengths))

    def rectangle(self, rows: int, widest: int, tokens: int) -> int:
        """The same of so many rows that hold so many tokens together."""
        padding = rows * widest - tokens
        return self.pass_bytes + self.experts.read(rows) + self.token_bytes * (tokens + _PADDING * padding)


def alike(lengths: Mapping[int, int], costs: Costs) -> list[Group]:
    """Rows by id, parted where steps cost least. The best groups are neighbours when rows stand by length."""
    ids = sorted(lengths, key=lambda id: (-lengths[id], id))
    widths = [lengths[id] for id in ids]
    tokens = [0, *accumulate(widths)]  # of the first n rows
    best: list[tuple[int, int]] = [(0, 0)]  # for the first n rows: cost, and where their last group begins
    for end in range(1, len(ids) + 1):
        # The first row of a group is its longest.
        last = (costs.rectangle(end - begin, widths[begin], tokens[end] - tokens[begin]) for begin in range(end))
        best.append(min((best[begin][0] + cost, begin) for begin, cost in enumerate(last)))
    groups, end = list[Group](), len(ids)
    while end:
        begin = best[end][1]
        groups.append(ids[begin:end])
        end = begin
    return groups[::-1]


Lengths = Mapping[str, Mapping[int, int]]
"""Of rows by id; parts of different names never come together."""


class Groups:
    """The group each row is in, by number within its part. Rows change groups only when rows come or go."""

    def __init__(self) -> None:
        self.costs = Costs(0, 0)
        self._numbers: dict[int, int] = {}

    def place(self, lengths: Lengths) -> dict[int, int]:
        """The numbers for a step of exactly these rows, by id."""
        if {id for part in lengths.values() for id in part} != self._numbers.keys():
            self._numbers = self._placed(lengths)
        return self._numbers

    def room(self, lengths: Lengths) -> int:
        """Tokens of room for these rows, were they to decode together now."""
        numbers = self._placed(lengths)
        return sum(
            tokens_of([part[id] for id in group], padded=True)
            for part in lengths.values()
            for group in _members({id: numbers[id] for id in part})
        )

    def _placed(self, lengths: Lengths) -> dict[int, int]:
        parts = (regrouped(part, self._numbers, self.costs) for part in lengths.values())
        return {id: number for part in parts for id, number in part.items()}


def regrouped(lengths: Mapping[int, int], before: Mapping[int, int], costs: Costs) -> dict[int, int]:
    """As before, with newcomers where they cost least; anew where that is worth the move. Numbers stay where they
    can, so that few rows move.
    """
    kept = {id: number for id, number in before.items() if id in lengths}
    for id in lengths:
        if id not in kept:
            kept[id] = _cheapest(id, kept, lengths, costs)
    best = alike(lengths, costs)
    if _cost(_members(kept), lengths, costs) <= _WORTH_IT * _cost(best, lengths, costs):
        return kept
    return _numbered(best, before)


def _cheapest(id: int, numbers: Mapping[int, int], lengths: Mapping[int, int], costs: Costs) -> int:
    """The group in which one more row costs least; one of its own is free to be chosen."""
    best, least = _free(numbers.values()), costs.of([lengths[id]])
    for group in _members(numbers):
        held = [lengths[each] for each in group]
        if (more := costs.of([*held, lengths[id]]) - costs.of(held)) < least:
            best, least = numbers[group[0]], more
    return best


def _numbered(groups: Iterable[Group], before: Mapping[int, int]) -> dict[int, int]:
    """Each group takes the number most of its rows had, if no larger group took it."""
    numbers: dict[int, int] = {}
    for group in sorted(groups, key=lambda group: -len(group)):
        taken = set(numbers.values())
        had = [before[id] for id in group if id in before and before[id] not in taken]
        number = max(had, key=had.count) if had else _free([*taken, *before.values()])
        numbers.update(dict.fromkeys(group, number))
    return numbers


def _free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(number for number in range(len(used) + 1) if number not in used)


def _members(numbers: Mapping[int, int]) -> list[Group]:
    groups: dict[int, Group] = {}
    for id, number in numbers.items():
        groups.setdefault(number, []).append(id)
    return list(groups.values())


def _cost(groups: Iterable[Group], lengths: Mapping[int, int], costs: Costs) -> int:
    return sum(costs.of([lengths[id] for id in group]) for group in groups)
