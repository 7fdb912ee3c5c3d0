"""Has the output layer of a model compute the last position of a pass alone: a prompt needs no other logits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from appliance.engine.mlx.adapters import place_of

_LAYERS = (nn.Linear, nn.QuantizedLinear, nn.Embedding, nn.QuantizedEmbedding)


class _Last(nn.Module):
    """An output layer, or an embedding that is one too. x: (B, L, hidden) gives (B, 1, vocabulary)."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self["layer"] = layer  # not as an attribute: those are looked up in it

    def __call__(self, x: mx.array) -> mx.array:
        looks_up = isinstance(self["layer"], nn.Embedding | nn.QuantizedEmbedding)
        out: mx.array = self["layer"](x if looks_up else x[:, -1:])
        return out

    def as_linear(self, x: mx.array) -> mx.array:
        out: mx.array = self["layer"].as_linear(x[:, -1:])
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self["layer"], name)


class Head:
    """The output layers of one model: those with as many outputs as its vocabulary that are no part of a numbered
    layer. Where a model has none that is found so, all logits of its passes are computed.
    """

    def __init__(self, model: nn.Module, vocabulary: int) -> None:
        self._places = [
            place_of(model, path)
            for path, layer in model.named_modules()
            if type(layer) in _LAYERS and layer.weight.shape[0] == vocabulary and not _numbered(path)
        ]

    @contextmanager
    def last_only(self) -> Iterator[None]:
        """The passes built in here may have the logits of their last position alone."""
        swaps = [(parent, key, _Last(parent[key])) for parent, key in self._places]
        for parent, key, last in swaps:
            parent[key] = last
        try:
            yield
        finally:
            for parent, key, last in swaps:
                if parent[key] is last:  # an adapter may have taken the place meanwhile
                    parent[key] = last["layer"]


def _numbered(path: str) -> bool:
    return any(part.isdigit() for part in path.split("."))
