"""Writes GGUF files of tiny llama models, as llama.cpp's converter and quantizer would lay them out."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Encoded = tuple[bytes, Floats]
"""The bytes of a tensor and the values they stand for."""

_ALIGNMENT = 32
_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def llama_metadata(config: Mapping[str, Any], tokenizer: Mapping[str, Any], pre: str = "gpt-2") -> dict[str, Any]:
    """Metadata of a model with this config.json and byte-level tokenizer.json."""
    vocabulary = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    return {
        "general.architecture": "llama",
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": config["rope_theta"],
        "llama.rope.dimension_count": config["head_dim"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": vocabulary,
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token in vocabulary],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


def write_llama(
    path: Path,
    metadata: Mapping[str, Any],
    weights: Mapping[str, Floats],
    kind: str,
    *,
    embeddings: str | None = None,
) -> dict[str, Floats]:
    """Write a checkpoint's weights as tensors of `kind`; gives back the values the file holds, by checkpoint name."""
    tensors: dict[str, tuple[str, Floats]] = {}
    for name, values in weights.items():
        stem = name.removesuffix(".weight")
        tensor_kind = "F32" if "norm" in stem else embeddings if embeddings and stem in _TOP else kind
        tensors[name] = (tensor_kind, _permuted(stem, values, metadata))
    held = write_gguf(path, metadata, {_gguf_name(name): tensor for name, tensor in tensors.items()})
    return {name: _unpermuted(name, held[_gguf_name(name)], metadata) for name in weights}


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, Floats]]
) -> dict[str, Floats]:
    """Write any GGUF file; gives back the values it holds by tensor name."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(key) + _value(value) for key, value in metadata.items())
    encoded = {name: ENCODE[kind][1](values) for name, (kind, values) in tensors.items()}
    offset, body = 0, b""
    for name, (kind, values) in tensors.items():
        shape = tuple(reversed(values.shape))
        head += _string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", ENCODE[kind][0], offset)
        data = encoded[name][0] + b"\0" * (-len(encoded[name][0]) % _ALIGNMENT)
        offset, body = offset + len(data), body + data
    path.write_bytes(head + b"\0" * (-len(head) % _ALIGNMENT) + body)
    return {name: held for name, (_, held) in encoded.items()}


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _TOP:
        return f"{_TOP[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[part]}.weight"


def _heads(name: str, metadata: Mapping[str, Any]) -> int | None:
    if "q_proj" in name:
        return int(metadata["llama.attention.head_count"])
    return int(metadata["llama.attention.head_count_kv"]) if "k_proj" in name else None


def _permuted(name: str, values: Floats, metadata: Mapping[str, Any]) -> Floats:
    if (heads := _heads(name, metadata)) is None:
        return values
    return values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def _unpermuted(name: str, values: Floats, metadata: Mapping[str, Any]) -> Floats:
    if (heads := _heads(name, metadata)) is None:
        return values
    return values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _string(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
    raise TypeError(f"no GGUF type for {value!r}")


def _f32(values: Floats) -> Encoded:
    return values.tobytes(), values


def _f16(values: Floats) -> Encoded:
    half = values.astype(np.float16)
    return half.tobytes(), half.astype(np.float32)


def _bf16(values: Floats) -> Encoded:
    kept = values.view(np.uint32) & 0xFFFF0000
    return (kept >> 16).astype(np.uint16).tobytes(), kept.view(np.float32)


def _blocks(values: Floats, size: int) -> Floats:
    return values.reshape(-1, size)


def _q8_0(values: Floats) -> Encoded:
    blocks = _blocks(values, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    steps = np.clip(np.round(blocks / scale.astype(np.float32)), -127, 127).astype(np.int8)
    raw = np.concatenate([scale.view(np.uint8), steps.view(np.uint8)], axis=1)
    return raw.tobytes(), (steps * scale.astype(np.float32)).reshape(values.shape)


def _q4(blocks: Floats, scale: Any, offset: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    steps = np.clip(np.round((blocks - offset) / scale), 0, 15).astype(np.uint8)
    return steps, steps[:, :16] | (steps[:, 16:] << 4)


def _q4_0(values: Floats) -> Encoded:
    blocks = _blocks(values, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    half = (largest / -8).astype(np.float16)
    scale = half.astype(np.float32)
    steps, packed = _q4(blocks, scale, -8 * scale)
    held = (steps.astype(np.float32) - 8) * scale
    return np.concatenate([half.view(np.uint8), packed], axis=1).tobytes(), held.reshape(values.shape)


def _q4_1(values: Floats) -> Encoded:
    blocks = _blocks(values, 32)
    low = blocks.min(axis=1, keepdims=True)
    halves = np.concatenate([(blocks.max(axis=1, keepdims=True) - low) / 15, low], axis=1).astype(np.float16)
    scale, offset = halves[:, :1].astype(np.float32), halves[:, 1:].astype(np.float32)
    steps, packed = _q4(blocks, scale, offset)
    held = steps.astype(np.float32) * scale + offset
    return np.concatenate([halves.view(np.uint8), packed], axis=1).tobytes(), held.reshape(values.shape)


def _fifth(steps: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    low = steps & 15
    return low[:, :16] | (low[:, 16:] << 4), np.packbits(steps >> 4, axis=1, bitorder="little")


def _q5_0(values: Floats) -> Encoded:
    blocks = _blocks(values, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    half = (largest / -16).astype(np.float16)
    scale = half.astype(np.float32)
    steps = np.clip(np.round(blocks / scale) + 16, 0, 31).astype(np.uint8)
    packed, high = _fifth(steps)
    held = (steps.astype(np.float32) - 16) * scale
    return np.concatenate([half.view(np.uint8), high, packed], axis=1).tobytes(), held.reshape(values.shape)


def _q5_1(values: Floats) -> Encoded:
    blocks = _blocks(values, 32)
    low = blocks.min(axis=1, keepdims=True)
    halves = np.concatenate([(blocks.max(axis=1, keepdims=True) - low) / 31, low], axis=1).astype(np.float16)
    scale, offset = halves[:, :1].astype(np.float32), halves[:, 1:].astype(np.float32)
    steps = np.clip(np.round((blocks - offset) / scale), 0, 31).astype(np.uint8)
    packed, high = _fifth(steps)
    held = steps.astype(np.float32) * scale + offset
    return np.concatenate([halves.view(np.uint8), high, packed], axis=1).tobytes(), held.reshape(values.shape)


def _q4_k(values: Floats) -> Encoded:
    return _k(values, 15)


def _q5_k(values: Floats) -> Encoded:
    return _k(values, 31)


def _k(values: Floats, most: int) -> Encoded:
    """Eight groups of 32 with 6-bit scales and minima under two half-precision factors."""
    groups = _blocks(values, 256).reshape(-1, 8, 32)
    low = np.minimum(groups.min(axis=2), 0)
    spread = (groups.max(axis=2) - low) / most
    factors = np.stack([spread.max(axis=1) / 63, -low.min(axis=1) / 63], axis=1).astype(np.float16)
    factor, floor = (factors[:, n, None].astype(np.float32) for n in (0, 1))
    scales = np.clip(np.round(spread / factor), 1, 63).astype(np.uint8)
    minima = np.clip(np.round(-low / floor), 0, 63).astype(np.uint8)
    step, base = (factor * scales)[..., None], (floor * minima)[..., None]
    steps = np.clip(np.round((groups + base) / step), 0, most).astype(np.uint8)
    first = np.concatenate([scales[:, :4] | (scales[:, 4:] >> 4 << 6), minima[:, :4] | (minima[:, 4:] >> 4 << 6)], 1)
    packed = np.concatenate([first, (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4], axis=1)
    nibbles = ((steps[:, 0::2] & 15) | (steps[:, 1::2] & 15) << 4).reshape(-1, 128)
    high = np.zeros((len(steps), 32 if most > 15 else 0), np.uint8)
    for n in range(8 if most > 15 else 0):
        high |= steps[:, n] >> 4 << n
    raw = np.concatenate([factors.view(np.uint8), packed, high, nibbles], axis=1)
    return raw.tobytes(), (steps * step - base).reshape(values.shape).astype(np.float32)


def _q6_k(values: Floats) -> Encoded:
    """Sixteen groups of 16 with 8-bit scales; four low bits and two high bits of each weight lie apart."""
    blocks = _blocks(values, 256)
    groups = blocks.reshape(-1, 16, 16)
    spread = np.abs(groups).max(axis=2) / 31
    half = (spread.max(axis=1, keepdims=True) / 127).astype(np.float16)
    scales = np.clip(np.round(spread / half.astype(np.float32)), 1, 127).astype(np.int8)
    step = (half.astype(np.float32) * scales)[..., None]
    steps = np.clip(np.round(groups / step), -32, 31)
    bits = (steps + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.concatenate([(bits[:, :, n] & 15) | (bits[:, :, n + 2] & 15) << 4 for n in (0, 1)], axis=2)
    high = np.zeros_like(bits[:, :, 0])
    for n in range(4):
        high |= bits[:, :, n] >> 4 << 2 * n
    raw = np.concatenate(
        [low.reshape(-1, 128), high.reshape(-1, 64), scales.view(np.uint8), half.view(np.uint8)], axis=1
    )
    return raw.tobytes(), (steps * step).reshape(values.shape).astype(np.float32)


ENCODE: Mapping[str, tuple[int, Callable[[Floats], Encoded]]] = {
    "F32": (0, _f32),
    "F16": (1, _f16),
    "Q4_0": (2, _q4_0),
    "Q4_1": (3, _q4_1),
    "Q5_0": (6, _q5_0),
    "Q5_1": (7, _q5_1),
    "Q8_0": (8, _q8_0),
    "Q4_K": (12, _q4_k),
    "Q3_K": (11, _f32),  # the number of a type nobody converts, over any bytes
    "Q5_K": (13, _q5_k),
    "Q6_K": (14, _q6_k),
    "BF16": (30, _bf16),
}
