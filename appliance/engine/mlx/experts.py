"""How much of a model's weights are experts, of which a token chooses some, and what part of them that is."""

from collections.abc import Mapping
from typing import Any

import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

_CHOSEN = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
)  # fmt: skip
"""What the configs of mlx-lm's models call the number of experts that a token chooses."""


def experts(model: nn.Module, config: Mapping[str, Any]) -> tuple[int, float]:
    """Bytes of all experts, and the part of them that one token needs: 1 where the config does not say."""
    layers = [layer for _, layer in model.named_modules() if isinstance(layer, SwitchLinear | QuantizedSwitchLinear)]
    sizes = [sum(part.nbytes for _, part in tree_flatten(layer.parameters())) for layer in layers]
    total = sum(sizes)
    text = config.get("text_config")
    told = {**config, **(text if isinstance(text, dict) else {})}
    chosen = next((told[key] for key in _CHOSEN if isinstance(told.get(key), int)), 0)
    if not total or not chosen:
        return total, 1.0
    needed = (size * min(1.0, chosen / layer.num_experts) for layer, size in zip(layers, sizes, strict=True))
    return total, sum(needed) / total
