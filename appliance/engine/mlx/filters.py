"""Which tokens may be drawn and which one is: pure functions of logits, vectorised over rows.

Order as in vLLM: temperature, then min-p, top-k, and top-p over what these left. A token is drawn by inverting the
cumulative distribution at one uniform number per row, so a draw depends on the row alone.
"""

import mlx.core as mx

# Rows with top-k up to this many candidates never look at the whole vocabulary again.
NARROW = 256


def draw_plain(scaled: mx.array, uniform: mx.array) -> mx.array:
    """Draw from softmax(scaled). scaled: (R, V); uniform: (R,) in [0, 1). Returns (R,) token ids."""
    return _invert(mx.softmax(scaled, axis=-1), uniform)


def draw_narrow(
    scaled: mx.array, top_k: mx.array, top_p: mx.array, min_p: mx.array, widest: int, uniform: mx.array
) -> mx.array:
    """Draw among the top_k (R,) likeliest, all of them ≤ `widest` ≤ NARROW; sorts `widest` values per row."""
    widest = min(widest, scaled.shape[-1])
    candidates = mx.argpartition(-scaled, kth=widest - 1, axis=-1)[:, :widest]
    values = mx.take_along_axis(scaled, candidates, axis=-1)
    order = mx.argsort(-values, axis=-1)
    values = mx.take_along_axis(values, order, axis=-1)
    rank = mx.arange(widest)[None]
    weights = mx.exp(values - values[:, :1])  # relative to the likeliest, whose weight is 1
    weights = mx.where((rank < top_k[:, None]) & (weights >= min_p[:, None]), weights, 0.0)
    before = mx.cumsum(weights, axis=-1) - weights
    weights = mx.where(before < top_p[:, None] * weights.sum(-1, keepdims=True), weights, 0.0)
    chosen = mx.take_along_axis(order, _invert(weights, uniform)[:, None], axis=-1)
    return mx.take_along_axis(candidates, chosen, axis=-1)[:, 0]


def draw_wide(scaled: mx.array, top_k: mx.array, top_p: mx.array, min_p: mx.array, uniform: mx.array) -> mx.array:
    """Draw with filters that may keep any number of tokens (top_k 0: all); no sort, see `_floor`."""
    weights = mx.exp(scaled - scaled.max(-1, keepdims=True))
    weights = mx.where(weights >= min_p[:, None], weights, 0.0)
    wanted = mx.where(top_k > 0, top_k, scaled.shape[-1])[:, None]
    by_rank = _floor(weights, lambda kept: kept.sum(-1, keepdims=True) >= wanted, counts=True)
    weights = mx.where(weights >= by_rank, weights, 0.0)
    mass = top_p[:, None] * weights.sum(-1, keepdims=True)
    by_mass = _floor(weights, lambda kept: kept.sum(-1, keepdims=True) >= mass, counts=False)
    return _invert(mx.where(weights >= by_mass, weights, 0.0), uniform)


def _floor(weights: mx.array, enough: object, counts: bool) -> mx.array:
    """The largest (R, 1) float t for which the weights ≥ t are enough: bisection over the bit patterns of float32,
    which sort like the non-negative numbers they stand for. Exact after 31 halvings, where a sort of a vocabulary of
    150 000 costs many times more.
    """
    low = mx.zeros((weights.shape[0], 1), dtype=mx.int32)
    high = weights.max(-1, keepdims=True).view(mx.int32)
    for _ in range(31):
        middle = low + (high - low + 1) // 2
        above = weights >= middle.view(mx.float32)
        fits = enough(above if counts else mx.where(above, weights, 0.0))  # type: ignore[operator]
        low, high = mx.where(fits, middle, low), mx.where(fits, high, middle - 1)
    return low.view(mx.float32)


def _invert(weights: mx.array, uniform: mx.array) -> mx.array:
    """The first position whose cumulative weight exceeds uniform × total: (R, V), (R,) → (R,)."""
    cumulative = mx.cumsum(weights, axis=-1)
    threshold = uniform[:, None] * cumulative[:, -1:]
    return mx.sum(cumulative <= threshold, axis=-1).astype(mx.int32)


def penalise(
    logits: mx.array,
    counts: mx.array,
    in_prompt: mx.array,
    repetition: mx.array,
    presence: mx.array,
    frequency: mx.array,
) -> mx.array:
    """Penalties as OpenAI defines presence and frequency (over the answer) and CTRL repetition (prompt too).

    logits, counts, in_prompt: (R, V); repetition, presence, frequency: (R, 1).
    """
    answered = counts > 0
    seen = answered | in_prompt
    repeated = mx.where(logits > 0, logits / repetition, logits * repetition)
    logits = mx.where(seen, repeated, logits)
    return logits - frequency * counts - presence * answered
