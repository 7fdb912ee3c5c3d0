"""Which tokens may be drawn and which one is: pure functions of logits, vectorised over rows.

Order as in vLLM: temperature, then min-p, top-k, and top-p over what these left. A token is drawn by inverting the
cumulative distribution at one uniform number per row, so a draw depends on the row alone.
"""

from collections.abc import Callable, Iterable

import mlx.core as mx

from appliance.engine.mlx.cpu_exponential import exp_down
from appliance.engine.mlx.likeliest import likeliest
from appliance.engine.mlx.load import on_cpu

NARROW = 256
"""Rows with top-k up to this many candidates never look at the whole vocabulary again."""


def draw_plain(scaled: mx.array, uniform: mx.array) -> mx.array:
    """Draw from softmax(scaled). scaled: (R, V); uniform: (R,) in [0, 1). Returns (R,) token ids."""
    return _invert(_weights(scaled), uniform)


def draw_narrow(
    scaled: mx.array, top_k: mx.array, top_p: mx.array, min_p: mx.array, widest: int, uniform: mx.array
) -> mx.array:
    """Draw among the top_k (R,) likeliest, all of them ≤ `widest` ≤ NARROW; sorts `widest` values per row."""
    candidates, weights = _likeliest(scaled, widest)
    rank = mx.arange(weights.shape[-1])[None]
    weights = mx.where((rank < top_k[:, None]) & (weights >= min_p[:, None]), weights, 0.0)
    return _draw_ranked(candidates, weights, top_p[:, None] * weights.sum(-1, keepdims=True), uniform)


def draw_covered(
    scaled: mx.array, top_k: mx.array, top_p: mx.array, min_p: mx.array, uniform: mx.array
) -> tuple[mx.array, mx.array]:
    """Draw as `draw_wide` would allow, looking at the NARROW likeliest only; says for which rows these held all that
    was to be kept, (R,) bool. The others must be drawn again. top_k is 0 or more than NARROW.
    """
    candidates, weights = _likeliest(scaled, NARROW)
    kept = mx.where(weights >= min_p[:, None], weights, 0.0)
    least = weights[:, -1:]
    everything = _weights(scaled).sum(-1, keepdims=True)
    bounded = least < min_p[:, None]  # all that min-p keeps is here: top-p counts from what it keeps
    mass = top_p[:, None] * mx.where(bounded, kept.sum(-1, keepdims=True), everything)
    covered = bounded | ((min_p[:, None] == 0) & (top_k[:, None] == 0) & (kept.sum(-1, keepdims=True) >= mass))
    return _draw_ranked(candidates, kept, mass, uniform), covered[:, 0]


def _likeliest(scaled: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The `count` likeliest tokens of each row and their weights, 1 for the first: (R, count) both, best first."""
    candidates, values = likeliest(scaled, min(count, scaled.shape[-1]))
    return candidates, mx.exp(values - values[:, :1])


def _draw_ranked(candidates: mx.array, weights: mx.array, mass: mx.array, uniform: mx.array) -> mx.array:
    """Draw from the first candidates that together reach `mass` (R, 1): (R,)."""
    before = mx.cumsum(weights, axis=-1) - weights
    first = mx.arange(weights.shape[-1])[None] == 0  # kept whatever top-p says
    weights = mx.where((before < mass) | first, weights, 0.0)
    chosen = _invert(weights, uniform)[:, None]
    return mx.take_along_axis(candidates, chosen, axis=-1)[:, 0].astype(mx.int32)


def draw_wide(
    scaled: mx.array, top_k: mx.array | None, top_p: mx.array, min_p: mx.array, uniform: mx.array
) -> mx.array:
    """Draw with filters that may keep any number of tokens (top_k 0, or None for all rows: all); no sort, see
    `_floor`.
    """
    weights = _weights(scaled)
    weights = mx.where(weights >= min_p[:, None], weights, 0.0)
    if top_k is not None:
        wanted = mx.where(top_k > 0, top_k, scaled.shape[-1])[:, None]
        by_rank = _floor(weights, lambda kept: kept.sum(-1, keepdims=True) >= wanted, counts=True)
        weights = mx.where(weights >= by_rank, weights, 0.0)
    mass = top_p[:, None] * weights.sum(-1, keepdims=True)
    by_mass = _floor(weights, lambda kept: kept.sum(-1, keepdims=True) >= mass, counts=False)
    return _invert(mx.where(weights >= by_mass, weights, 0.0), uniform)


def draw_kept(scaled: mx.array, top_p: mx.array, uniforms: Iterable[mx.array]) -> tuple[mx.array, mx.array]:
    """Draw with top-p alone: from everything, once for each of `uniforms` (R,), until what was drawn is kept. Tokens
    (R,), and which rows have one (R,) bool. Some passes over the vocabulary, where to find the floor takes a hundred.
    """
    weights = _weights(scaled)
    mass = top_p[:, None] * weights.sum(-1, keepdims=True)
    tokens, kept = mx.zeros(len(scaled), dtype=mx.int32), mx.zeros(len(scaled), dtype=mx.bool_)
    for uniform in uniforms:
        drawn = _invert(weights, uniform)
        own = mx.take_along_axis(weights, drawn[:, None], axis=-1)
        above = mx.where(weights > own, weights, 0.0).sum(-1, keepdims=True)
        tokens = mx.where(kept, tokens, drawn)
        kept = kept | ((above < mass) | (own >= 1))[:, 0]  # the likeliest, of weight 1, is kept whatever top-p says
        if all(kept.tolist()):
            break
    return tokens, kept


def _weights(scaled: mx.array) -> mx.array:
    """What tokens weigh in softmax(scaled), 1 for the likeliest: (R, V)."""
    behind = scaled.max(-1, keepdims=True) - scaled
    return exp_down(behind) if on_cpu() else mx.exp(-behind)


def _floor(weights: mx.array, enough: Callable[[mx.array], mx.array], counts: bool) -> mx.array:
    """The largest (R, 1) float t for which the weights ≥ t are enough: bisection over the bit patterns of float32,
    which sort like the non-negative numbers they stand for. Exact after 31 halvings, where a sort of a vocabulary of
    150 000 costs many times more.
    """
    low = mx.zeros((weights.shape[0], 1), dtype=mx.int32)
    high = weights.max(-1, keepdims=True).view(mx.int32)
    for _ in range(31):
        middle = low + (high - low + 1) // 2
        above = weights >= middle.view(mx.float32)
        fits = enough(above if counts else mx.where(above, weights, 0.0))
        low, high = mx.where(fits, middle, low), mx.where(fits, high, middle - 1)
    return low.view(mx.float32)


def _invert(weights: mx.array, uniform: mx.array) -> mx.array:
    """The first position whose cumulative weight exceeds uniform × total: (R, V), (R,) → (R,).

    Weights that are no numbers give the last position, never one past it: an index out of bounds is not caught.
    """
    cumulative = mx.cumsum(weights, axis=-1)
    threshold = uniform[:, None] * cumulative[:, -1:]
    place = mx.sum(cumulative <= threshold, axis=-1).astype(mx.int32)
    return mx.minimum(place, weights.shape[-1] - 1)
