"""Tiny random checkpoints of several architectures, one for each kind of cache mlx-lm has."""

import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes

from tests.checkpoints import tiny_vocab_llama

VOCABULARY = 300
COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "head_dim": 16,
    "tie_word_embeddings": True,
    "eos_token_id": [0, 2],
}

FAMILIES: dict[str, dict[str, object]] = {
    "llama, plain cache": {"model_type": "llama"},
    "qwen3, plain cache": {"model_type": "qwen3"},
    "gemma3, sliding window": {
        "model_type": "gemma3_text",
        "sliding_window": 8,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 16,
    },
    "mamba, state only": {
        "model_type": "mamba",
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
    },
    "qwen3-moe, experts": {
        "model_type": "qwen3_moe",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
}


def make(directory: Path, config: dict[str, object]) -> Path:
    """Random weights of std 0.2, so that the likeliest tokens stand apart."""
    tiny_vocab_llama(directory)
    full = COMMON | config
    (directory / "config.json").write_text(json.dumps(full))
    model_class, args_class = _get_classes(full)
    model = model_class(args_class.from_dict(full))
    mx.random.seed(0)
    weights = {
        name: mx.random.normal(value.shape) * 0.2 if value.ndim > 1 else value
        for name, value in tree_flatten(model.parameters())
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return directory
