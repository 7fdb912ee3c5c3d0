"""What a token of context costs by a model's kind of attention, read from its config.json. PURE.

The layers are those for which mlx-lm's classes make a cache (`make_cache` in mlx_lm/models, 0.32).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from appliance.control.recurrence import Config, Kept, kept, number


class Layer(StrEnum):
    """What one layer keeps of a row."""

    FULL = "full"
    WINDOW = "window"
    STATE = "state"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RowCost:
    """`per_token` values are kept of every token, `per_window_token` more of the newest `window` tokens only.

    `kind` says for people how the model attends; `kept` is there of every row, however short.
    """

    kind: str
    per_token: int
    per_window_token: int = 0
    window: int = 0
    kept: Kept = Kept()

    def values(self, tokens: int) -> int:
        """How many numbers of keys and values a row of so many tokens keeps."""
        return self.per_token * tokens + self.per_window_token * min(tokens, self.window)

    @property
    def growth(self) -> int:
        """Numbers per token of a row shorter than the window, as engines charge every token."""
        return self.per_token + self.per_window_token


def row_cost(config: Config) -> RowCost:
    """Where `text_config` holds the language model's numbers those are taken. Numbers that are missing count as 0."""
    text = config.get("text_config")
    merged: Config = {**config, **text} if isinstance(text, dict) else config
    kinds = _layers(merged)
    full, windowed = kinds.count(Layer.FULL), kinds.count(Layer.WINDOW)
    state = kept(merged).times(kinds.count(Layer.STATE))
    if merged.get("model_type") in _LATENT:
        latent = number(merged, "kv_lora_rank") + number(merged, "qk_rope_head_dim")
        index = number(merged, "index_head_dim") * 2 if merged["model_type"] in _INDEXED else 0
        told = f"latent attention in {full} of {len(kinds)} layers"
        return RowCost(told, (latent + index) * full, kept=state)
    wide, narrow = _keys_and_values(merged, Layer.FULL), _keys_and_values(merged, Layer.WINDOW)
    window = number(merged, "sliding_window")
    parts = {
        "attention to everything": full,
        f"to the last {window} tokens": windowed,
        "a recurrent state": kinds.count(Layer.STATE),
    }
    said = [f"{part} in {count} of {len(kinds)} layers" for part, count in parts.items() if count]
    return RowCost(
        ", ".join(said) or "no attention", wide * full, narrow * windowed, window if windowed else 0, state
    )


_LATENT = frozenset(
    {"deepseek_v3", "deepseek_v32", "glm4_moe_lite", "kimi_k2", "kimi_linear", "longcat_flash", "mistral4"}
)
"""Models that keep a compressed latent and one rotary key instead of keys and values per head."""
_INDEXED = frozenset({"deepseek_v32"})
"""Those that keep an indexer's keys beside it (twice: as keys and as values)."""


def _keys_and_values(config: Config, layer: Layer) -> int:
    heads = number(config, "num_attention_heads", "n_head", "n_heads")
    hidden = number(config, "hidden_size", "n_embd", "d_model")
    kv_heads = number(config, "num_key_value_heads") or heads
    width = number(config, "head_dim") or (hidden // heads if heads else 0)
    if layer is Layer.FULL and config.get("model_type") == "gemma4_text":
        width = number(config, "global_head_dim") or width
        kv_heads = number(config, "num_global_key_value_heads") or kv_heads
    return 2 * kv_heads * width


def _layers(config: Config) -> list[Layer]:
    count = number(config, "num_hidden_layers", "n_layer", "n_layers")
    rule = _RULES.get(str(config.get("model_type")))
    kinds = rule(config, count) if rule is not None else [Layer.FULL] * count
    # The last ones of these read the keys and values of others.
    return kinds[: len(kinds) - number(config, "num_kv_shared_layers")]


def _every(default: int, other: Layer, *names: str) -> Callable[[Config, int], list[Layer]]:
    """Every so manieth layer attends to everything."""

    def kinds(config: Config, count: int) -> list[Layer]:
        period = number(config, *names) or default
        return [Layer.FULL if (i + 1) % period == 0 else other for i in range(count)]

    return kinds


_TYPES = {
    "full_attention": Layer.FULL,
    "attention": Layer.FULL,
    "sliding_attention": Layer.WINDOW,
    "linear_attention": Layer.STATE,
    "conv": Layer.STATE,
    "mamba": Layer.STATE,
}


def _listed(otherwise: Callable[[Config, int], list[Layer]]) -> Callable[[Config, int], list[Layer]]:
    """As `layer_types` says, where the config has it."""

    def kinds(config: Config, count: int) -> list[Layer]:
        listed = config.get("layer_types")
        if not isinstance(listed, list):
            return otherwise(config, count)
        return [_TYPES.get(str(name), Layer.FULL) for name in listed[:count]]

    return kinds


def _letters(config: Config, count: int) -> list[Layer]:
    """Nemotron-H: M is a Mamba layer, * attention, everything else keeps nothing."""
    pattern = config.get("hybrid_override_pattern") or ""
    letters = {"M": Layer.STATE, "*": Layer.FULL}
    return [letters.get(str(letter), Layer.NONE) for letter in pattern]


def _exaone(config: Config, count: int) -> list[Layer]:
    pattern = str(config.get("sliding_window_pattern") or "G")
    return [Layer.WINDOW if pattern[i % len(pattern)] == "L" else Layer.FULL for i in range(count)]


def _jamba(config: Config, count: int) -> list[Layer]:
    period, offset = number(config, "attn_layer_period") or 1, number(config, "attn_layer_offset")
    return [Layer.FULL if i % period == offset else Layer.STATE for i in range(count)]


def _kimi(config: Config, count: int) -> list[Layer]:
    """The list counts from 1."""
    linear = config.get("linear_attn_config")
    full = linear.get("full_attn_layers", ()) if isinstance(linear, dict) else ()
    return [Layer.FULL if i + 1 in full else Layer.STATE for i in range(count)]


def _lfm(config: Config, count: int) -> list[Layer]:
    full = config.get("full_attn_idxs")
    return [Layer.FULL if not isinstance(full, list) or i in full else Layer.STATE for i in range(count)]


def _all(layer: Layer) -> Callable[[Config, int], list[Layer]]:
    return lambda config, count: [layer] * count


_RULES: Mapping[str, Callable[[Config, int], list[Layer]]] = {
    "gemma3": _every(6, Layer.WINDOW, "sliding_window_pattern"),
    "gemma3_text": _every(6, Layer.WINDOW, "sliding_window_pattern"),
    "gemma3n": _listed(_all(Layer.FULL)),
    "gemma3n_text": _listed(_all(Layer.FULL)),
    "gemma4": _listed(_every(5, Layer.WINDOW, "sliding_window_pattern")),
    "gemma4_text": _listed(_every(5, Layer.WINDOW, "sliding_window_pattern")),
    "cohere2": _every(4, Layer.WINDOW, "sliding_window_pattern"),
    "exaone4": _exaone,
    "olmo3": _listed(_every(4, Layer.WINDOW)),
    "gpt_oss": _listed(_every(2, Layer.WINDOW)),
    "ministral3": _listed(_all(Layer.FULL)),
    "qwen3_next": _every(4, Layer.STATE, "full_attention_interval"),
    "qwen3_5": _every(4, Layer.STATE, "full_attention_interval"),
    "qwen3_5_moe": _every(4, Layer.STATE, "full_attention_interval"),
    "qwen3_5_text": _every(4, Layer.STATE, "full_attention_interval"),
    "qwen3_5_moe_text": _every(4, Layer.STATE, "full_attention_interval"),
    "granitemoehybrid": _listed(_all(Layer.FULL)),
    "lfm2": _listed(_lfm),
    "lfm2_moe": _listed(_lfm),
    "jamba": _jamba,
    "nemotron_h": _letters,
    "kimi_linear": _kimi,
    "mamba": _all(Layer.STATE),
    "mamba2": _all(Layer.STATE),
    "rwkv7": _all(Layer.STATE),
}
"""Models that do not attend to everything in every layer."""
