"""What a token is expected to cost before a load, against the caches mlx-lm really makes."""

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache
from mlx_lm.utils import _get_classes

from appliance.control.attention import row_cost
from appliance.engine.mlx import kv
from tests.mlx.families import COMMON, FAMILIES, MORE

FOUR = {"num_hidden_layers": 4, "sliding_window": 8}
KINDS = FAMILIES | {
    "gpt-oss, windows as listed": {
        "model_type": "gpt_oss",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        **FOUR,
    },
    "cohere2, windows": {
        "model_type": "cohere2",
        "sliding_window_pattern": 4,
        "layer_norm_eps": 1e-5,
        "logit_scale": 1.0,
        "attention_bias": False,
        "layer_norm_bias": False,
        **FOUR,
    },
    "olmo3, windows by default": {"model_type": "olmo3", **FOUR},
    "deepseek-v3, a latent": {
        "model_type": "deepseek_v3",
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "n_routed_experts": None,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 2,
    },
    "qwen3-next, states": MORE["qwen3-next, hybrid"]
    | {
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "norm_topk_prob": True,
    },
    "lfm2, convolutions": {
        "model_type": "lfm2",
        "norm_eps": 1e-5,
        "block_dim": 64,
        "conv_L_cache": 3,
        "conv_bias": False,
        "block_ff_dim": 128,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1],
        "conv_dim": 64,
    },
    "mamba2, states": {
        "model_type": "mamba2",
        "num_heads": 4,
        "head_dim": 16,
        "state_size": 8,
        "n_groups": 2,
        "conv_kernel": 4,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": [0.0, 100.0],
        "time_step_rank": 4,
    },
    "jamba, states and attention": {
        "model_type": "jamba",
        "num_hidden_layers": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 1,
        "num_experts_per_tok": 1,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
    },
}
STATES = [kind for kind in KINDS if "state" in kind or "convolutions" in kind]


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", STATES)
def test_a_row_keeps_the_states_that_were_expected(kind, dtype):
    # Experts compute in float32 only where there is no GPU.
    config = COMMON | KINDS[kind] | {"mlp_only_layers": [0, 1, 2, 3]}
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    model.set_dtype(dtype)
    caches = kv.fresh(model)
    mx.eval(model(mx.array([[0, 0]]), cache=caches))
    mx.eval(model(mx.array([[0]]), cache=caches))
    held = sum(cache.nbytes for cache in caches if isinstance(cache, ArraysCache))
    assert row_cost(config).kept.bytes(dtype.size) == pytest.approx(held, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_costs_what_was_expected(kind):
    config = COMMON | KINDS[kind]
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    caches = kv.fresh(model)
    mx.eval(model(mx.array([[0, 0]]), cache=caches))
    assert row_cost(config).growth * mx.float32.size == kv.bytes_per_token(caches)


def test_a_window_holds_no_more_than_its_tokens():
    config = COMMON | KINDS["gemma3, sliding window"]
    cost = row_cost(config)
    assert cost.values(1000) == cost.per_token * 1000 + cost.per_window_token * 8
    assert cost.kind == "attention to everything in 1 of 2 layers, to the last 8 tokens in 1 of 2 layers"
