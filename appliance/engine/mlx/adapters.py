"""Runs one model's weights with several LoRA adapters: before a pass, the layers an adapter changes take its place.

The base weights are shared. A pass is built for one adapter at a time, so rows with different ones never mix.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from appliance import log
from appliance.engine.adapter import Adapter
from appliance.engine.mlx.kv import share_places
from appliance.errors import EngineFault

Forward = Callable[..., mx.array]


class Adapted(nn.Module):
    """A linear layer with a low-rank change, as mlx-lm's LoRALinear without dropout."""

    def __init__(self, base: nn.Module, a: mx.array, b: mx.array, scale: float) -> None:
        super().__init__()
        self.base, self.a, self.b, self.scale = base, a, b, scale

    def __call__(self, x: mx.array) -> mx.array:
        return self.base(x) + (self.scale * ((x @ self.a) @ self.b)).astype(x.dtype)


class Adapters:
    """Owned by the thread of the model. "" stands for the weights as they are."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._layers = {path: layer for path, layer in model.named_modules() if _is_linear(layer)}
        self._places = {path: _place(model, path) for path in self._layers}
        self._changes: dict[str, Mapping[str, nn.Module]] = {"": {}}
        self._current = ""

    def targets(self) -> dict[str, tuple[int, int]]:
        """The layers that can be adapted, as (inputs, outputs)."""
        return {path: _shape(layer) for path, layer in self._layers.items()}

    def forward(self, name: str) -> Forward:
        """The model with an adapter that was added."""

        def forward(tokens: mx.array, cache: Any) -> mx.array:
            self._use(name)
            share_places(cache)
            logits: mx.array = self._model(tokens, cache=cache)
            return logits

        return forward

    def add(self, adapter: Adapter) -> str:
        """Read an adapter that fits; its name. Raises EngineFault where its file is gone or broken meanwhile."""
        name = adapter.name
        if name not in self._changes:
            try:
                self._changes[name] = self._read(adapter)
            except (RuntimeError, KeyError) as error:
                raise EngineFault(f"the adapter in {adapter.directory} cannot be read: {error}") from error
        return name

    def _read(self, adapter: Adapter) -> dict[str, nn.Module]:
        stored = mx.load(adapter.file)
        sides: dict[str, dict[str, mx.array]] = {}
        for factor in adapter.factors:
            value = stored[factor.name]
            sides.setdefault(factor.path, {})[factor.side] = value.T if factor.turned else value
        mx.eval(sides)
        held = sum(side.nbytes for pair in sides.values() for side in pair.values())
        log.get().info("engine.adapter_read", adapter=adapter.directory, bytes=held)
        return {
            path: Adapted(self._layers[path], pair["a"], pair["b"], adapter.scale) for path, pair in sides.items()
        }

    def _use(self, name: str) -> None:
        if name == self._current:
            return
        for path in self._changes[self._current]:
            parent, key = self._places[path]
            parent[key] = self._layers[path]
        for path, layer in self._changes[name].items():
            parent, key = self._places[path]
            parent[key] = layer
        self._current = name


def _is_linear(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear | nn.QuantizedLinear)


def _shape(layer: nn.Module) -> tuple[int, int]:
    outputs, inputs = layer.weight.shape
    if isinstance(layer, nn.QuantizedLinear):
        inputs = inputs * 32 // layer.bits
    return inputs, outputs


def _place(model: nn.Module, path: str) -> tuple[Any, Any]:
    """What holds the layer at a path, and under which key: modules are mappings, lists of layers are lists."""
    at: Any = model
    *above, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in above:
        at = at[part]
    return at, last
