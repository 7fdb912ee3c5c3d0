"""Rotary positions in float32 on the CPU backend: sines and cosines once for all that is turned by the same angles,
and one pass over what is turned, where MLX makes about twenty.
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

import mlx.core as mx

Offset = int | mx.array
_Key = tuple[object, ...]

KEPT = 4
"""Angles kept: a model turns queries and keys alike, in all layers or in two kinds of them."""


class Rotation:
    """Stands in for `mx.fast.rope`, which it asks where it does not apply."""

    def __init__(self, original: Callable[..., mx.array]) -> None:
        self._original = original
        self._kept: deque[tuple[tuple[object, ...], tuple[object, ...], tuple[mx.array, mx.array]]] = deque(
            maxlen=KEPT
        )

    def __call__(
        self,
        x: mx.array,
        dims: int,
        *,
        traditional: bool,
        base: float | None,
        scale: float,
        offset: Offset,
        freqs: mx.array | None = None,
        **rest: object,
    ) -> mx.array:
        """x: (B, H, L, D), offset: of all rows or one a row (B,); gives x, in row-major order."""
        halves = not traditional and x.ndim == 4 and dims == x.shape[-1] and dims % 2 == 0
        if rest or not halves or x.dtype != mx.float32 or not _fits(offset, x.shape[0]):
            return self._original(
                x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs, **rest
            )
        along, across = self._angles(x.shape[2], dims, base, scale, offset, freqs)
        pairs = mx.unflatten(x, -1, (2, dims // 2))
        return mx.flatten(_turned(pairs, along, pairs[..., ::-1, :], across), -2)

    def _angles(
        self, length: int, dims: int, base: float | None, scale: float, offset: Offset, freqs: mx.array | None
    ) -> tuple[mx.array, mx.array]:
        at = offset if isinstance(offset, int) else None
        key = (length, dims, base, scale, at, threading.get_ident())  # an array belongs to its thread until computed
        arrays = (None if at is not None else offset, freqs)
        for kept, theirs, angles in self._kept:
            if kept == key and all(a is b for a, b in zip(theirs, arrays, strict=True)):
                return angles
        angles = _angles(length, dims, base, scale, offset, freqs)
        self._kept.append((key, arrays, angles))
        return angles


def _fits(offset: Offset, batch: int) -> bool:
    return isinstance(offset, int) or (isinstance(offset, mx.array) and offset.shape == (batch,))


def _angles(
    length: int, dims: int, base: float | None, scale: float, offset: Offset, freqs: mx.array | None
) -> tuple[mx.array, mx.array]:
    """What a half is multiplied by, and what the other half is that is added: (B or 1, 1, L, 2, D / 2)."""
    half = dims // 2
    if freqs is None:
        inverse = mx.exp(mx.arange(0, -half, -1, dtype=mx.float32) * (math.log(base or 1.0) / half))
    else:
        inverse = mx.reciprocal(freqs).astype(mx.float32)
    start = offset if isinstance(offset, int) else offset[:, None]
    positions = (mx.arange(length, dtype=mx.float32) + start) * scale
    theta = positions.reshape(-1, 1, length, 1) * inverse
    cosine, sine = mx.cos(theta), mx.sin(theta)
    return mx.stack([cosine, cosine], axis=-2), mx.stack([-sine, sine], axis=-2)


@partial(mx.compile, shapeless=True)
def _turned(x: mx.array, along: mx.array, other: mx.array, across: mx.array) -> mx.array:
    return x * along + other * across
