"""How the tensors of a llama-architecture GGUF become those of an MLX model, and the config.json they need."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np

from appliance.engine.mlx.gguf_blocks import GROUP
from appliance.engine.mlx.gguf_header import Header
from appliance.errors import SourceError

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_ROPE_FACTORS = "rope_freqs.weight"
# Llama 3.1 and later; the factor itself is read from the file and the rest checked against it.
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}

Arrays = dict[str, mx.array]


def model_config(header: Header, rope_factors: np.ndarray | None) -> dict[str, Any]:
    """The config.json of the model, quantization aside. Raises SourceError naming what we cannot express."""
    get = _Metadata(header.metadata)
    architecture = get.text("general.architecture")
    if architecture != "llama":
        raise SourceError(f"GGUF files of the `{architecture}` architecture cannot be converted, only `llama`")
    if get.number("llama.expert_count", 0):
        raise SourceError("a mixture of experts in a GGUF file cannot be converted")
    if header.metadata.get("split.count", 0) > 1:
        raise SourceError("this GGUF file is one part of several; merge them into one file first")
    hidden, heads = get.number("llama.embedding_length"), get.number("llama.attention.head_count")
    head_dim = get.number("llama.attention.key_length", hidden // heads)
    if (rotated := get.number("llama.rope.dimension_count", head_dim)) != head_dim:
        raise SourceError(f"only {rotated} of {head_dim} dimensions are rotated; this cannot be converted")
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "intermediate_size": get.number("llama.feed_forward_length"),
        "num_hidden_layers": get.number("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": get.number("llama.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": get.number("llama.context_length"),
        "rms_norm_eps": float(get.number("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": float(get.number("llama.rope.freq_base", 10000.0)),
        "rope_scaling": _rope_scaling(get, head_dim, rope_factors),
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }


def check_names(header: Header, layers: int) -> None:
    """Raises SourceError where a tensor is missing or one is there that the model would not use."""
    wanted = {f"blk.{i}.{name}" for i in range(layers) for name in _LAYER} | set(_TOP)
    optional = {"output.weight", _ROPE_FACTORS}
    if missing := sorted(wanted - optional - set(header.tensors)):
        raise SourceError(f"the GGUF file lacks tensor {missing[0]} ({len(missing)} missing in all)")
    if extra := sorted(set(header.tensors) - wanted - optional):
        raise SourceError(f"the GGUF file has tensor {extra[0]}, which a plain llama model does not use")


def model_weights(arrays: Mapping[str, mx.array], config: Mapping[str, Any]) -> Arrays:
    """Renamed, q and k rows back in the order of the original checkpoint, one floating type throughout."""
    dtype = _common_type({array.dtype for array in arrays.values()})
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights: Arrays = {}
    for name, array in arrays.items():
        if name == _ROPE_FACTORS:
            continue
        stem, _, part = name.rpartition(".")
        rows = heads.get(stem.rpartition(".")[2])
        ordered = array if rows is None else _unpermute(array, rows)
        weights[_renamed(stem, part)] = ordered if ordered.dtype == mx.uint32 else ordered.astype(dtype)
    return weights


def quantization(weights: Mapping[str, mx.array]) -> dict[str, Any] | None:
    """The `quantization` of config.json: the commonest bits, and each tensor that differs by its path."""
    bits = {
        name.removesuffix(".scales"): 32 * weights[name.removesuffix("scales") + "weight"].shape[-1] // GROUP
        // scales.shape[-1]
        for name, scales in weights.items()
        if name.endswith(".scales")
    }  # fmt: skip
    if not bits:
        return None
    common = Counter(bits.values()).most_common(1)[0][0]
    others = {path: {"group_size": GROUP, "bits": b} for path, b in sorted(bits.items()) if b != common}
    return {"group_size": GROUP, "bits": common, **others}


def _common_type(types: set[mx.Dtype]) -> mx.Dtype:
    """Norms are always float32 in the file: they follow what the matrices have."""
    if types == {mx.float32}:
        return mx.float32
    return mx.bfloat16 if types == {mx.float32, mx.bfloat16} else mx.float16


def _renamed(stem: str, part: str) -> str:
    weight = f"{stem}.weight"
    if weight in _TOP:
        new = _TOP[weight]
    else:
        _, layer, name = weight.split(".", 2)
        new = f"model.layers.{layer}.{_LAYER[name]}"
    return new.removesuffix("weight") + part


def _unpermute(array: mx.array, heads: int) -> mx.array:
    """Within each head GGUF has rows 0, n/2, 1, n/2+1, …; a checkpoint has 0, 1, …, n-1."""
    rows, columns = array.shape
    return array.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _rope_scaling(get: "_Metadata", head_dim: int, factors: np.ndarray | None) -> dict[str, Any] | None:
    kind = get.text("llama.rope.scaling.type", "none")
    if factors is not None:
        return _llama3_scaling(float(get.number("llama.rope.freq_base", 10000.0)), head_dim, factors)
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": float(get.number("llama.rope.scaling.factor"))}
    raise SourceError(f"position scaling of type `{kind}` cannot be converted")


def _llama3_scaling(base: float, head_dim: int, factors: np.ndarray) -> dict[str, Any]:
    factor = round(float(factors.max()), 4)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    wavelengths = 2 * math.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((_LLAMA3["original_max_position_embeddings"] / wavelengths - low) / (high - low), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
        raise SourceError(f"the position factors in {_ROPE_FACTORS} follow no rule we know; this cannot be converted")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


class _Metadata:
    """Typed reads that name the key which is missing."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def number(self, key: str, default: float | None = None) -> Any:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SourceError(f"the GGUF file's `{key}` is {'missing' if value is None else 'not a number'}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise SourceError(f"the GGUF file's `{key}` is {'missing' if value is None else 'not a text'}")
        return value
