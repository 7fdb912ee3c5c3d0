"""Groups rows by how their next token is drawn: each group is one vectorised draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import mlx.core as mx

from appliance.engine.mlx.filters import NARROW, draw_covered, draw_kept, draw_narrow, draw_plain, draw_wide
from appliance.engine.mlx.load import on_cpu
from appliance.engine.mlx.randomness import uniform
from appliance.engine.mlx.rows import SampleRow
from appliance.vocab.request import Sampling

GREEDY_BELOW = 1e-6
"""Temperatures that divide logits into infinities; the likeliest token is what they mean."""

ATTEMPTS = 6
"""Draws from everything, of which top-p keeps at least its own part: of 0.7 one in a thousand needs more."""


class Way(Enum):
    PLAIN = "no filter"
    NARROW = "at most NARROW candidates"
    WIDE = "any number of candidates"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Rows drawn the same way: their places in the batch, their parameters as (R,) arrays."""

    way: Way
    places: list[int]
    index: mx.array
    temperature: mx.array  # (R, 1)
    top_k: mx.array
    top_p: mx.array
    min_p: mx.array
    widest: int

    def draw(self, logits: mx.array, rows: Sequence[SampleRow]) -> tuple[mx.array, mx.array | None]:
        """logits: (R, V) of these rows. Tokens (R,), and whether each is final (R,), or None if all are."""
        scaled = logits / self.temperature
        chances = _chances(rows, self.places)
        if self.way is Way.PLAIN:
            return draw_plain(scaled, chances), None
        if self.way is Way.NARROW:
            return draw_narrow(scaled, self.top_k, self.top_p, self.min_p, self.widest, chances), None
        if (
            on_cpu()
        ):  # there, passes over a vocabulary cost more than a look at the likeliest and, seldom, a second draw
            return draw_covered(scaled, self.top_k, self.top_p, self.min_p, chances)
        return draw_wide(scaled, self.top_k if self.widest else None, self.top_p, self.min_p, chances), None

    def draw_fully(self, places: list[int], logits: mx.array, rows: Sequence[SampleRow]) -> mx.array:
        """Draw some of the rows again, from everything they may say."""
        at = mx.array([self.places.index(place) for place in places])
        scaled = logits / self.temperature[at]
        chances = (_chances(rows, places, attempt) for attempt in range(ATTEMPTS))
        tokens, kept = draw_kept(scaled, self.top_p[at], chances)
        plain = mx.logical_and(self.top_k[at] == 0, self.min_p[at] == 0)
        if all((kept & plain).tolist()):
            return tokens
        top_k = self.top_k[at] if self.widest else None
        again = draw_wide(scaled, top_k, self.top_p[at], self.min_p[at], _chances(rows, places))
        return mx.where(kept & plain, tokens, again)


def _chances(rows: Sequence[SampleRow], places: Sequence[int], attempt: int = 0) -> mx.array:
    return mx.array([uniform(rows[i].sampling.seed, rows[i].answered, attempt) for i in places])


def drawn_rows(rows: Sequence[SampleRow]) -> tuple[Drawn, ...]:
    """The groups of all rows that are not greedy."""
    groups: dict[Way, list[int]] = {}
    for place, row in enumerate(rows):
        if row.sampling.temperature >= GREEDY_BELOW:
            groups.setdefault(_way(row.sampling), []).append(place)
    return tuple(_group(way, places, rows) for way, places in groups.items())


def _way(sampling: Sampling) -> Way:
    if 0 < sampling.top_k <= NARROW:
        return Way.NARROW
    return Way.PLAIN if sampling.top_k == 0 and sampling.top_p >= 1 and sampling.min_p == 0 else Way.WIDE


def _group(way: Way, places: list[int], rows: Sequence[SampleRow]) -> Drawn:
    of = [rows[place].sampling for place in places]
    return Drawn(
        way,
        places,
        mx.array(places),
        mx.array([[s.temperature] for s in of]),
        mx.array([s.top_k for s in of]),
        mx.array([s.top_p for s in of]),
        mx.array([s.min_p for s in of]),
        max(s.top_k for s in of),
    )
