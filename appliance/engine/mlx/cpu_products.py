"""Multiplies few rows with a weight of few inputs part by part on the CPU backend.

A BLAS copies a large matrix into another layout before it multiplies and wakes its threads: worth it for a prompt and
for long rows, while for a few short ones the copy takes longer than the product. A part is too small for either.
"""

import os
import sys
from math import gcd

import mlx.core as mx
import mlx.nn as nn

FEW_CORES = 3
"""With more, the threads are faster together all the same."""
FEW_ROWS = 12
_INPUTS = range(32, 257)
"""With fewer OpenBLAS copies a part, too; with more its threads are the faster ones, by a twentieth of a token's time
where each row has 576.
"""
_RESULTS = 1200
"""Up to so many OpenBLAS multiplies without copying (its `sgemm_small_kernel_permit` for Skylake, which many newer
processors use too).
"""
_PARTS = range(16, 513)
"""Outputs of a part: fewer take too many calls, more are copied."""
_GATHERING = 8
"""To put a result of several rows together from its parts takes as long as so many multiplications."""
_SMALL = 1 << 19
"""Multiplications that are not worth more than one call."""

_whole, _whole_tied = nn.Linear.__call__, nn.Embedding.as_linear


def install() -> None:
    """Let the layers of every model multiply like this from now on, where it helps."""
    if _cores() <= FEW_CORES:
        nn.Linear.__call__, nn.Embedding.as_linear = _linear, _as_linear


def _cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _linear(layer: nn.Linear, x: mx.array) -> mx.array:
    y = in_parts(x, layer["weight"])
    if y is None:
        return _whole(layer, x)
    return y + layer["bias"] if "bias" in layer else y


def _as_linear(layer: nn.Embedding, x: mx.array) -> mx.array:
    y = in_parts(x, layer["weight"])
    return _whole_tied(layer, x) if y is None else y


def in_parts(x: mx.array, weight: mx.array) -> mx.array | None:
    """x (…, K) @ weight.T (K, N); None where that is better done at once."""
    outputs, inputs = weight.shape
    rows = x.size // inputs
    fits = inputs in _INPUTS and rows <= FEW_ROWS and (rows <= 1 or inputs >= rows * _GATHERING)
    if not fits or rows * weight.size <= _SMALL or weight.dtype != mx.float32:
        return None
    most = max(1, min(_PARTS[-1], _RESULTS // rows))
    part = gcd(outputs, 1 << most.bit_length() - 1)
    if part not in _PARTS:
        return None
    y = x.reshape(rows, inputs) @ weight.reshape(-1, part, inputs).swapaxes(-1, -2)  # (N / part, rows, part)
    return y.swapaxes(0, 1).reshape(*x.shape[:-1], outputs)
