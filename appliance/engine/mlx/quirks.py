"""What some of mlx-lm's models do with their caches that is not so elsewhere, by model type (mlx-lm 0.32)."""

import mlx.nn as nn
from mlx_lm.models.cache import RotatingKVCache

from appliance.engine.mlx.kv import Caches, leaves

_WIDER = {"plamo3": 1}
"""Tokens by which a pass over a prompt looks back further than the window that is kept for the next one: what is seen
would depend on where a prompt is cut.
"""

_COUNTS_PLACES = frozenset({"afm7", "minimax_m3_vl"})
"""Takes places in the cache for positions, padding included: to rotate queries, or to cut blocks to choose among."""

_WEIGHTS_READ = frozenset(
    {"prediction_coefs", "correction_coefs", "self_attention_res_proj", "mlp_res_proj", "output_attn_res_proj"}
)
"""Linear layers of gemma3n and kimi_k3 whose weights the model reads itself: a change beside them would be lost."""


def mended(model: nn.Module, caches: Caches) -> Caches:
    """Windows as wide as this model looks back."""
    for leaf in leaves(caches):
        if isinstance(leaf, RotatingKVCache):
            leaf.max_size += _WIDER.get(_type(model), 0)
    return caches


def refuses_padding(model: nn.Module) -> bool:
    """Whether rows of different lengths cannot share a pass."""
    return _type(model) in _COUNTS_PLACES


def is_called(path: str) -> bool:
    """Whether a model uses the linear layer at this path by calling it, and in no other way."""
    return path.rpartition(".")[2] not in _WEIGHTS_READ


def _type(model: nn.Module) -> str:
    return str(getattr(model, "model_type", ""))
