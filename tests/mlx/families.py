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


MORE: dict[str, dict[str, object]] = {
    "qwen3-next, hybrid": {
        "model_type": "qwen3_next",
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 2,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 32,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "partial_rotary_factor": 0.5,
    },
    "lfm2, convolutions": {
        "model_type": "lfm2",
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention"],
    },
    "falcon-h1, state and attention in each layer": {
        "model_type": "falcon_h1",
        "mamba_d_ssm": 64,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "gpt-oss, windows with sinks": {
        "model_type": "gpt_oss",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_scaling": None,
    },
    "deepseek-v3.2, an index beside latent keys": {
        "model_type": "deepseek_v32",
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 16,
        "index_head_dim": 16,
        "index_n_heads": 2,
        "index_topk": 8,
    },
    "gemma4, layers that share keys": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 1,
        "global_head_dim": 32,
        "num_global_key_value_heads": 1,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 16,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "recurrent-gemma, states and windows": {
        "model_type": "recurrent_gemma",
        "attention_bias": False,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "attention_window_size": 8,
        "embeddings_scale_by_sqrt_dim": True,
        "block_types": ["recurrent", "attention"],
    },
    "llama4, chunks": {
        "model_type": "llama4",
        "text_config": COMMON
        | {
            "model_type": "llama4_text",
            "num_hidden_layers": 4,
            "attention_bias": False,
            "attention_chunk_size": 8,
            "interleave_moe_layer_step": 1,
            "intermediate_size_mlp": 128,
            "num_experts_per_tok": 1,
            "num_local_experts": 4,
            "rope_scaling": None,
            "use_qk_norm": True,
        },
    },
    "plamo3, windows that are wider in a prompt": {
        "model_type": "plamo3",
        "window_size": 8,
        "sliding_window_pattern": 2,
    },
    "minimax-m3, blocks of places": {
        "model_type": "minimax_m3_vl",
        "text_config": COMMON
        | {
            "intermediate_size": 32,
            "dense_intermediate_size": 128,
            "shared_intermediate_size": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rotary_dim": 8,
            "moe_layer_freq": [0, 1],
            "sparse_attention_freq": [0, 1],
            "index_n_heads": 2,
            "index_head_dim": 16,
            "index_block_size": 8,
            "index_topk_blocks": 2,
        },
    },
    "afm7, places for positions": {
        "model_type": "afm7",
        "hidden_dim": 64,
        "num_layers": 4,
        "num_kv_reuse_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
        "hidden_dim_scale_factor": 2.0,
    },
    "gemma2, one row at a time": {
        "model_type": "gemma2",
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 16,
    },
    "gpt-bigcode, one row at a time": {
        "model_type": "gpt_bigcode",
        "n_embd": 64,
        "n_layer": 2,
        "n_inner": 128,
        "n_head": 4,
        "n_positions": 512,
        "layer_norm_epsilon": 1e-5,
    },
}
"""Other caches, and other ways to use them."""


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
