"""How the tensor formats of GGUF files become MLX arrays: plain ones, or the triple of an affine quantization.

The blocks are decoded here and not by `mx.load`: that gives the odd groups of Q4_K the scales of their neighbours,
and unpacks the K formats to half precision, four times their size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

GROUP = 32
"""Weights under one scale, in every quantized array made here."""


@dataclass(frozen=True, slots=True)
class Format:
    """`weights` in a block of `size` bytes. `decode` takes all blocks, one a row, and the length of a tensor's row.

    It gives the array's parts by name: `weight` alone, or `weight`, `scales` and `biases`.
    """

    name: str
    weights: int
    size: int
    decode: Callable[[Bytes, int], dict[str, mx.array]]


def _f32(blocks: Bytes, row: int) -> dict[str, mx.array]:
    return {"weight": mx.array(blocks.reshape(-1).view(np.float32).reshape(-1, row))}


def _f16(blocks: Bytes, row: int) -> dict[str, mx.array]:
    return {"weight": mx.array(blocks.reshape(-1).view(np.float16).reshape(-1, row))}


def _bf16(blocks: Bytes, row: int) -> dict[str, mx.array]:
    return {"weight": mx.array(blocks.reshape(-1).view(np.uint16).reshape(-1, row)).view(mx.bfloat16)}


def _q4_0(blocks: Bytes, row: int) -> dict[str, mx.array]:
    scale = _halves(blocks[:, :2])
    return _affine(_nibbles(blocks[:, 2:]), 4, scale, -8 * scale, row)


def _q4_1(blocks: Bytes, row: int) -> dict[str, mx.array]:
    return _affine(_nibbles(blocks[:, 4:]), 4, _halves(blocks[:, :2]), _halves(blocks[:, 2:4]), row)


def _q5_0(blocks: Bytes, row: int) -> dict[str, mx.array]:
    scale = _halves(blocks[:, :2])
    return _affine(_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), 5, scale, -16 * scale, row)


def _q5_1(blocks: Bytes, row: int) -> dict[str, mx.array]:
    steps = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _affine(steps, 5, _halves(blocks[:, :2]), _halves(blocks[:, 2:4]), row)


def _q8_0(blocks: Bytes, row: int) -> dict[str, mx.array]:
    scale = _halves(blocks[:, :2])
    return _affine(blocks[:, 2:] ^ 0x80, 8, scale, -128 * scale, row)


def _q4_k(blocks: Bytes, row: int) -> dict[str, mx.array]:
    scales, biases = _packed_scales(blocks[:, :16])
    return _affine(_paired_nibbles(blocks[:, 16:]), 4, scales, biases, row)


def _q5_k(blocks: Bytes, row: int) -> dict[str, mx.array]:
    scales, biases = _packed_scales(blocks[:, :16])
    high = blocks[:, 16:48, None] >> np.arange(8, dtype=np.uint8) & 1
    steps = _paired_nibbles(blocks[:, 48:]) | high.swapaxes(1, 2) << 4
    return _affine(steps, 5, scales, biases, row)


def _q6_k(blocks: Bytes, row: int) -> dict[str, mx.array]:
    """Groups of 16 are too small for MLX: 8 bits over groups of 32 add an eighth of a step at most."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & 15
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    steps = (low.reshape(-1, 2, 4, 32) | high << 4).reshape(-1, 16, 16).astype(np.float32) - 32
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32) * _halves(blocks[:, 208:])
    return _in_8_bits((steps * scales[:, :, None]).reshape(-1, GROUP), row)


FORMATS: Mapping[int, Format] = {
    0: Format("F32", 1, 4, _f32),
    1: Format("F16", 1, 2, _f16),
    2: Format("Q4_0", 32, 18, _q4_0),
    3: Format("Q4_1", 32, 20, _q4_1),
    6: Format("Q5_0", 32, 22, _q5_0),
    7: Format("Q5_1", 32, 24, _q5_1),
    8: Format("Q8_0", 32, 34, _q8_0),
    12: Format("Q4_K", 256, 144, _q4_k),
    13: Format("Q5_K", 256, 176, _q5_k),
    14: Format("Q6_K", 256, 210, _q6_k),
    30: Format("BF16", 1, 2, _bf16),
}
"""By the number a GGUF file gives."""


def _affine(steps: Bytes, bits: int, scales: Floats, biases: Floats, row: int) -> dict[str, mx.array]:
    """MLX's packing: the steps of a row as one stream of bits, lowest first, in words of 32."""
    groups = row // GROUP
    return {
        "weight": mx.array(_stream(steps.reshape(-1, row), bits).view(np.uint32)),
        "scales": mx.array(scales.reshape(-1, groups).astype(np.float16)),
        "biases": mx.array(biases.reshape(-1, groups).astype(np.float16)),
    }


def _in_8_bits(groups: Floats, row: int) -> dict[str, mx.array]:
    """Steps are counted from the rounded scale and bias, so that rounding these costs nothing."""
    lowest = groups.min(axis=1, keepdims=True)
    bias = lowest.astype(np.float16).astype(np.float32)
    scale = ((groups.max(axis=1, keepdims=True) - lowest) / 254).astype(np.float16).astype(np.float32)
    steps = np.clip(np.round((groups - bias) / np.where(scale, scale, 1)), 0, 255).astype(np.uint8)
    return _affine(steps, 8, scale, bias, row)


def _stream(steps: Bytes, bits: int) -> Bytes:
    if bits == 8:
        return np.ascontiguousarray(steps)
    if bits == 4:
        pairs: Bytes = steps[:, 0::2] | steps[:, 1::2] << 4
        return pairs
    each = np.unpackbits(steps[:, :, None], axis=2, count=bits, bitorder="little")
    return np.packbits(each.reshape(len(steps), -1), axis=1, bitorder="little")


def _halves(pairs: Bytes) -> Floats:
    return np.ascontiguousarray(pairs).view(np.float16).astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """The low halves of a block's bytes are its first weights, the high halves the others."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth_bits(words: Bytes) -> Bytes:
    return np.unpackbits(words, axis=1, bitorder="little") << 4


def _paired_nibbles(packed: Bytes) -> Bytes:
    """Of each 32 bytes the low halves are one group of a K block, the high halves the next."""
    return (packed.reshape(-1, 4, 1, 32) >> np.array([0, 4], np.uint8)[:, None] & 15).reshape(-1, 8, 32)


def _packed_scales(head: Bytes) -> tuple[Floats, Floats]:
    """Eight 6-bit scales and minima under two factors: the last four keep their high bits with the first four's."""
    first, second, third = head[:, 4:8], head[:, 8:12], head[:, 12:16]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return _halves(head[:, :2]) * scales, -_halves(head[:, 2:4]) * minima
