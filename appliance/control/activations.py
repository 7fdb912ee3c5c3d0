"""What a step needs beside weights, keys and values: an upper estimate from a model's config.json. PURE."""

from appliance.control.recurrence import Config, number

CPU_CHUNK, CHUNK = 1024, 2048
"""The most prompt tokens of one step: before its speed is measured on a CPU, ever elsewhere."""

_FLOAT32 = 4


def activation_bytes(config: Config, *, width: int, rows: int, cpu: bool) -> int:
    """Bytes of the largest step of `rows` rows in numbers of `width` bytes.

    Counted are the residual stream, its norm and what comes of the two (4 × hidden), queries, keys and values and
    the attention's output, the inner layer three times (gate, up and their product), a row's logits three times in
    float32 (as they come, filtered, and as probabilities), and on a CPU, where attention is not fused, the scores of
    a chunk before and after their softmax.
    """
    text = config.get("text_config")
    merged: Config = {**config, **text} if isinstance(text, dict) else config
    hidden = number(merged, "hidden_size", "n_embd", "d_model")
    heads = number(merged, "num_attention_heads", "n_head", "n_heads")
    head = number(merged, "head_dim") or (hidden // heads if heads else 0)
    kv_heads = number(merged, "num_key_value_heads") or heads
    chunk = CPU_CHUNK if cpu else CHUNK
    token = 4 * hidden + (2 * heads + 2 * kv_heads) * head + 3 * _inner(merged, hidden)
    scores = 2 * heads * chunk * chunk * _FLOAT32 if cpu else 0
    return chunk * token * width + scores + 3 * rows * number(merged, "vocab_size") * _FLOAT32


def _inner(config: Config, hidden: int) -> int:
    """Numbers of the inner layer that one token makes; only its experts' where there are several."""
    experts = number(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk")
    moe = number(config, "moe_intermediate_size") or number(config, "intermediate_size")
    dense = number(config, "intermediate_size", "n_inner", "intermediate_dim") or 4 * hidden
    return max(dense, experts * moe) if experts else dense
