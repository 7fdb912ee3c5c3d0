"""The likeliest tokens of each row, of which most of a vocabulary is looked at only for its maximum."""

import mlx.core as mx

_BLOCK = 16
"""Tokens of which the likeliest is found first, where a few of many are wanted."""


def likeliest(logits: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The `count` largest of each row, which has as many at least. logits: (R, V). Tokens and logits: (R, count)
    both, best first.
    """
    tokens, values = _partitioned(logits, count)
    order = mx.argsort(-values, axis=-1)
    return mx.take_along_axis(tokens, order, axis=-1), mx.take_along_axis(values, order, axis=-1)


def _partitioned(logits: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The same in any order. They lie in the `count` blocks whose likeliest are likeliest."""
    rows, vocabulary = logits.shape
    if vocabulary < 4 * _BLOCK * count:
        tokens = mx.argpartition(-logits, kth=count - 1, axis=-1)[:, :count]
        return tokens, mx.take_along_axis(logits, tokens, axis=-1)
    padded = mx.pad(logits, ((0, 0), (0, -vocabulary % _BLOCK)), constant_values=-mx.inf)
    blocks = padded.reshape(rows, -1, _BLOCK)
    best = mx.argpartition(-blocks.max(-1), kth=count - 1, axis=-1)[:, :count]
    within, values = _partitioned(mx.take_along_axis(blocks, best[..., None], axis=1).reshape(rows, -1), count)
    return mx.take_along_axis(best, within // _BLOCK, axis=-1) * _BLOCK + within % _BLOCK, values
