"""Which forms of keys and values a checkpoint's attention allows. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.vocab.spec import KvForm

_WINDOWED = frozenset((
    "afmoe", "baichuan_m1", "cohere2", "exaone4", "exaone_moe", "gemma3_text", "gemma3", "gemma3n", "gemma3n_text",
    "gemma4", "gemma4_text", "gpt_oss", "iquestloopcoder", "llama4", "llama4_text", "mimo_v2_flash", "olmo3",
    "plamo2", "plamo3", "recurrent_gemma", "step3p5",
))  # fmt: skip
"""Those whose layers all or in part look back at a window or a chunk, whether their config says so or not."""
_STATES = frozenset(("mamba", "mamba2", "rwkv7"))
"""Those without attention."""


@dataclass(frozen=True, slots=True)
class Attention:
    """`window`: layers look back at so many tokens only. `latent`: keys and values are kept compressed (MLA).
    `state`: there are none, what was read is one state of a fixed size.

    `head_dim` is None where the files do not say.
    """

    window: bool = False
    latent: bool = False
    head_dim: int | None = None
    state: bool = False


def attention(config: Mapping[str, Any]) -> Attention:
    """What a config.json says of it."""
    nested = config.get("text_config")
    text = {**config, **nested} if isinstance(nested, dict) else config
    layers = text.get("layer_types")
    sliding = isinstance(layers, list) and any("sliding" in str(layer) or "chunked" in str(layer) for layer in layers)
    return Attention(
        window=sliding or "sliding_window_pattern" in text or text.get("model_type") in _WINDOWED,
        latent=bool(text.get("kv_lora_rank")),
        head_dim=_head_dim(text),
        state=text.get("model_type") in _STATES,
    )


def misfit(attention: Attention, form: KvForm) -> str | None:
    """Why keys and values of this attention cannot be in this form; None: they can."""
    if attention.state:
        return "this model has a state in place of keys and values, and it cannot be quantized"
    if attention.window:
        return "this model's layers look back at a sliding window, and such caches cannot be quantized"
    if attention.latent:
        return "this model keeps keys and values compressed already (MLA), and such caches cannot be quantized"
    if attention.head_dim is not None and attention.head_dim % form.group:
        return f"groups of {form.group} do not divide this model's heads of {attention.head_dim} numbers"
    return None


def unwindowed(attention: Attention) -> str | None:
    """Why a model cannot be given a window to look back at; None: it can."""
    if attention.state:
        return "this model has a state of a fixed size in place of keys and values, so there is nothing to bound"
    if attention.window:
        return "this model's layers have windows of their own"
    if attention.latent:
        return "this model keeps keys and values compressed (MLA), which has no window"
    return None


def _head_dim(text: Mapping[str, Any]) -> int | None:
    match text.get("head_dim"), text.get("hidden_size"), text.get("num_attention_heads"):
        case int(width), _, _:
            return width
        case _, int(hidden), int(heads) if heads > 0:
            return hidden // heads
    return None
