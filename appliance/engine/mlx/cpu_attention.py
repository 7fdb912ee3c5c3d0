"""Attention in float32 on the CPU backend: the keys of grouped heads are not repeated, exp is vectorised, sums are
products with ones, and long prompts go in blocks that stay in the cores' caches.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import mlx.core as mx
import numpy as np

from appliance.engine.mlx.cpu_exponential import exp_up

Mask = mx.array | str | None

FEWEST = 4096
"""Scores; below, MLX's own softmax is faster, since each operation costs some microseconds."""
MOST = 1 << 18
"""Scores of a block of queries: 1 MiB of them, written and read some ten times."""
KEPT = 1 << 20
"""Numbers of a mask that is kept for the next layer; a larger one is made anew rather than held."""
_HIDDEN = -1e30
"""Added to a score that must not count. Of a row that sees nothing all scores are this, so it stays finite."""


class Attention:
    """Stands in for `mx.fast.scaled_dot_product_attention`, which it asks where it does not apply."""

    def __init__(self, original: Callable[..., mx.array]) -> None:
        self._original = original
        self._mask: Mask = None
        self._bias: mx.array | None = None

    def __call__(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        *,
        scale: float,
        mask: Mask = None,
        sinks: mx.array | None = None,
        **rest: object,
    ) -> mx.array:
        """q: (B, H, L, D), k: (B, G, S, D), v: (B, G, S, E) where G divides H; gives (B, H, L, E)."""
        scores = q.size // q.shape[-1] * k.shape[-2]
        plain = sinks is None and not rest and scale > 0 and _all_float32(q, k, v) and _known(mask)
        if not plain or scores < FEWEST:
            return self._original(q, k, v, scale=scale, mask=mask, sinks=sinks, **rest)
        if isinstance(mask, mx.array):
            return _blocks(q, k, v, scale, self._bias_of(mask), scores)
        return _blocks(q, k, v, scale, mask, scores)

    def _bias_of(self, mask: mx.array) -> mx.array:
        """All layers of a pass have the same mask, so it is made into a summand once."""
        if mask is self._mask and self._bias is not None:
            return self._bias
        bias = mx.where(mask if mask.ndim == 4 else mask[None, None], 0.0, _HIDDEN)
        if mask.size <= KEPT:
            self._mask, self._bias = mask, bias
        return bias


def _all_float32(*arrays: mx.array) -> bool:
    return all(a.dtype == mx.float32 for a in arrays)


def _known(mask: Mask) -> bool:
    """Whether it is none, causal, or says yes or no alike for all heads."""
    if isinstance(mask, mx.array):
        return mask.dtype == mx.bool_ and (mask.ndim == 2 or (mask.ndim == 4 and mask.shape[1] == 1))
    return mask is None or mask == "causal"


def _blocks(q: mx.array, k: mx.array, v: mx.array, scale: float, bias: Mask, scores: int) -> mx.array:
    length, keys = q.shape[-2], k.shape[-2]
    rows = max(1, length * MOST // scores)
    if rows >= length:
        return _block(q, k, v, scale, _causal(length, keys) if isinstance(bias, str) else bias)
    parts = []
    for low in range(0, length, rows):
        high = min(low + rows, length)
        seen = keys
        if isinstance(bias, str):  # what no query of the block sees is left out
            seen = keys - length + high
            part: mx.array | None = _causal(high - low, seen)
        else:
            part = bias if bias is None or bias.shape[2] == 1 else bias[:, :, low:high]
        parts.append(_block(q[:, :, low:high], k[:, :, :seen], v[:, :, :seen], scale, part))
    return mx.concatenate(parts, axis=2)


def _block(q: mx.array, k: mx.array, v: mx.array, scale: float, bias: mx.array | None) -> mx.array:
    batch, heads, length, width = q.shape
    groups, keys = k.shape[1:3]
    scores = q.reshape(batch, groups, -1, width) @ k.swapaxes(-1, -2)
    if bias is not None:
        shape = scores.shape
        scores = (scores.reshape(batch, groups, -1, length, keys) + bias[:, :, None]).reshape(shape)
    weights = _weights(scores - scores.max(axis=-1, keepdims=True), mx.array(-scale))
    totals = (weights @ _ones(keys)).reshape(batch, heads, length, 1)
    sums = (weights @ v).reshape(batch, heads, length, -1)
    # Divided in the order of the next layer's input, into which models bring it next.
    return (sums.transpose(0, 2, 1, 3) / totals.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


@partial(mx.compile, shapeless=True)
def _weights(below: mx.array, scale: mx.array) -> mx.array:
    """exp of how far scores are below their row's highest."""
    return 1 / exp_up(below * scale)


@lru_cache(maxsize=8)
def _causal(length: int, keys: int) -> mx.array:
    hidden = np.triu(np.full((length, keys), _HIDDEN, dtype=np.float32), keys - length + 1)
    return mx.array(hidden[None, None])


@lru_cache(maxsize=8)
def _ones(keys: int) -> mx.array:
    return mx.array(np.ones((keys, 1), dtype=np.float32))
