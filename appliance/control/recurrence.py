"""What a recurrent layer keeps of a row, however long that is, read from a model's config.json. PURE.

The shapes are those that mlx-lm's layers put into their caches (mlx_lm/models, 0.32): a short convolution's last
inputs, and the state itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """Numbers: `own` of the type the model computes in, `exact` of float32 whatever that is."""

    own: int = 0
    exact: int = 0

    def bytes(self, width: int) -> int:
        """When one of the model's own numbers takes so many bytes."""
        return self.own * width + self.exact * 4

    def times(self, layers: int) -> "Kept":
        return Kept(self.own * layers, self.exact * layers)


def kept(config: Config) -> Kept:
    """By one of the recurrent layers; nothing where the model is not known. Numbers that are missing count as 0."""
    rule = _RULES.get(str(config.get("model_type")))
    return rule(config) if rule is not None else Kept()


def number(config: Config, *names: str) -> int:
    """The first of these that is there; 0 for none."""
    return next((value for name in names if isinstance(value := config.get(name), int)), 0)


def _mamba(config: Config) -> Kept:
    width = number(config, "intermediate_size", "d_inner")
    kernel, state = number(config, "conv_kernel", "d_conv"), number(config, "state_size", "d_state")
    return Kept(own=(kernel - 1) * width + width * state)


def _jamba(config: Config) -> Kept:
    width = number(config, "mamba_expand") * number(config, "hidden_size")
    return Kept(own=(number(config, "mamba_d_conv") - 1 + number(config, "mamba_d_state")) * width)


def _mamba2(heads: str, dim: str, state: tuple[str, ...], groups: str, kernel: str) -> Callable[[Config], Kept]:
    def rule(config: Config) -> Kept:
        width, size = number(config, heads) * number(config, dim), number(config, *state)
        inputs = width + 2 * number(config, groups) * size
        return Kept(own=(number(config, kernel) - 1) * inputs, exact=width * size)

    return rule


def _delta(config: Config) -> Kept:
    keys = number(config, "linear_num_key_heads") * number(config, "linear_key_head_dim")
    values = number(config, "linear_num_value_heads") * number(config, "linear_value_head_dim")
    kernel = number(config, "linear_conv_kernel_dim") or 4
    return Kept(own=(kernel - 1) * (2 * keys + values), exact=values * number(config, "linear_key_head_dim"))


def _kimi(config: Config) -> Kept:
    linear = config.get("linear_attn_config")
    own: Config = linear if isinstance(linear, dict) else {}
    dim = number(own, "head_dim")
    width = number(own, "num_heads") * dim
    return Kept(own=3 * ((number(own, "short_conv_kernel_size") or 4) - 1) * width, exact=width * dim)


def _lfm(config: Config) -> Kept:
    return Kept(own=(number(config, "conv_L_cache") - 1) * number(config, "hidden_size"))


def _rwkv(config: Config) -> Kept:
    hidden = number(config, "hidden_size")
    return Kept(own=2 * hidden + hidden * number(config, "head_dim"))


_RULES: Mapping[str, Callable[[Config], Kept]] = {
    "mamba": _mamba,
    "jamba": _jamba,
    "mamba2": _mamba2("num_heads", "head_dim", ("ssm_state_size", "state_size"), "n_groups", "conv_kernel"),
    "nemotron_h": _mamba2("mamba_num_heads", "mamba_head_dim", ("ssm_state_size",), "n_groups", "conv_kernel"),
    "granitemoehybrid": _mamba2(
        "mamba_n_heads", "mamba_d_head", ("mamba_d_state",), "mamba_n_groups", "mamba_d_conv"
    ),
    "qwen3_next": _delta,
    "qwen3_5": _delta,
    "qwen3_5_moe": _delta,
    "qwen3_5_text": _delta,
    "qwen3_5_moe_text": _delta,
    "kimi_linear": _kimi,
    "lfm2": _lfm,
    "lfm2_moe": _lfm,
    "rwkv7": _rwkv,
}
