"""Which caches a model's own code takes: asked when it is loaded, so that no request finds out.

The shapes of a pass are checked when it is described. None is computed here.
"""

import copy

import mlx.core as mx
import mlx.nn as nn

from appliance.engine.mlx.kv import Caches

_COUNTS = (2, 3)
"""A mask of as many rows as a model has key heads may fit by chance where it should not."""
_WIDTHS = (1, 2)


def refuses_batches(model: nn.Module, caches: Caches) -> str | None:
    """What goes wrong with several rows in one pass, of which each holds what these caches hold; None: nothing."""
    for count in _COUNTS:
        for width in _WIDTHS:
            rows = [cache.merge([cache] * count) for cache in caches]
            if (why := _error(model, rows, count, width)) is not None:
                return why
    return None


def refuses(model: nn.Module, caches: Caches) -> str | None:
    """What goes wrong with one row in caches of this kind; None: nothing."""
    errors = (_error(model, copy.deepcopy(caches), 1, width) for width in _WIDTHS)
    return next((why for why in errors if why is not None), None)


def _error(model: nn.Module, caches: Caches, count: int, width: int) -> str | None:
    try:
        model(mx.zeros((count, width), dtype=mx.int32), cache=caches)
    except (ValueError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None
