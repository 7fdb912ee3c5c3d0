"""What some of mlx-lm's models do with their caches that is not so elsewhere, by model type (mlx-lm 0.32)."""

import mlx.nn as nn
from mlx_lm.models.cache import RotatingKVCache

from appliance.engine.mlx.kv import Caches, leaves

_WIDER = {"plamo3": 1}
"""Tokens by which a pass over a prompt looks back further than the window that is kept for the next one: what is seen
would depend on where a prompt is cut.
"""

_COUNTS_PLACES = frozenset({"minimax_m3_vl"})
"""Attention chooses among blocks that are cut over places in the cache, where padding moves what stands in them."""


def mended(model: nn.Module, caches: Caches) -> Caches:
    """Windows as wide as this model looks back."""
    for leaf in leaves(caches):
        if isinstance(leaf, RotatingKVCache):
            leaf.max_size += _WIDER.get(_type(model), 0)
    return caches


def refuses_padding(model: nn.Module) -> bool:
    """Whether rows of different lengths cannot share a pass."""
    return _type(model) in _COUNTS_PLACES


def _type(model: nn.Module) -> str:
    return str(getattr(model, "model_type", ""))
