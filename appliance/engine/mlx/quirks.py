"""What some of mlx-lm's models do with their caches that is not so elsewhere, by model type (mlx-lm 0.32)."""

import mlx.nn as nn
from mlx_lm.models.cache import RotatingKVCache

from appliance.engine.mlx.kv import Caches, leaves

_WIDER = {"plamo3": 1}
"""Tokens by which a pass over a prompt looks back further than the window that is kept for the next one: what is seen
would depend on where a prompt is cut.
"""

_PLACES = frozenset({"afm7", "minimax_m3_vl"})
"""They rotate queries, or cut blocks to choose among, by places in the cache: a row in a batch has padding there, and
a window forgets places.
"""
_ALONE = {
    **dict.fromkeys(_PLACES, "its own code takes places in the cache for positions, padding included"),
    "recurrent_gemma": "its own code begins a sequence where there is no state at all, which others beside it have",
}

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


def why_alone(model: nn.Module) -> str | None:
    """Why rows cannot share a pass though their caches and the code's shapes allow it; None: they can."""
    return _ALONE.get(_type(model))


def why_unwindowed(model: nn.Module) -> str | None:
    """Why its keys and values cannot be held over a window though their caches allow it; None: they can."""
    return "its own code takes places in the cache for positions" if _type(model) in _PLACES else None


def is_called(path: str) -> bool:
    """Whether a model uses the linear layer at this path by calling it, and in no other way."""
    return path.rpartition(".")[2] not in _WEIGHTS_READ


def _type(model: nn.Module) -> str:
    return str(getattr(model, "model_type", ""))
