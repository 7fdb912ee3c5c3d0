"""Gives models on the CPU backend attention and rotary positions in fewer and vectorised passes than MLX has there.

Models call them through the module `mlx.core.fast`, so they are put there.
"""

import mlx.core as mx

from appliance.engine.mlx.cpu_attention import Attention
from appliance.engine.mlx.cpu_rotation import Rotation

_ATTENTION, _ROPE = mx.fast.scaled_dot_product_attention, mx.fast.rope


def install() -> None:
    """Let every model use them from now on."""
    mx.fast.scaled_dot_product_attention = Attention(_ATTENTION)
    mx.fast.rope = Rotation(_ROPE)
