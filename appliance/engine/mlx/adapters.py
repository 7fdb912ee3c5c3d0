"""Runs one model's weights with several LoRA adapters: before a pass, the layers an adapter changes take its place.

The base weights are shared. A pass is built for one adapter at a time, so rows with different ones never mix.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from appliance import log
from appliance.engine.adapter import Adapter
from appliance.engine.mlx.kv import share_places
from appliance.engine.mlx.quirks import is_called
from appliance.errors import EngineFault

Forward = Callable[..., mx.array]


class Adapted(nn.Module):
    """A linear layer with a low-rank change, as mlx-lm's LoRALinear without dropout."""

    def __init__(self, base: nn.Module, a: mx.array, b: mx.array, scale: float) -> None:
        super().__init__()
        self.base, self.a, self.b, self.scale = base, a, b, scale

    def __call__(self, x: mx.array) -> mx.array:
        return self.base(x) + (self.scale * ((x @ self.a) @ self.b)).astype(x.dtype)


@dataclass(eq=False, slots=True)
class _Held:
    """One that is in memory. `rows` are open with it; `wanted` gives it as long as a sequence may yet run with it."""

    directory: str
    layers: Mapping[str, nn.Module]
    bytes: int
    wanted: Callable[[], Adapter | None]
    rows: int = 0


class Adapters:
    """Owned by the thread of the model. "" stands for the weights as they are.

    An adapter goes when its files were replaced and nothing that began with it is left, or when its directory is none
    of those to `keep` and no row is open with it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._layers = {path: layer for path, layer in model.named_modules() if _is_linear(layer) and is_called(path)}
        self._places = {path: place_of(model, path) for path in self._layers}
        self._held: dict[str, _Held] = {}
        self._kept: frozenset[str] = frozenset()
        self._current = ""

    @property
    def bytes(self) -> int:
        """What is held, after what is of no use any more was let go."""
        self._let_go()
        return sum(held.bytes for held in self._held.values())

    def keep(self, directories: Iterable[str]) -> None:
        """Hold what was read of these for requests that are still to come."""
        self._kept = frozenset(directories)

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

    def open(self, adapter: Adapter) -> str:
        """Hold an adapter that fits for one row more; its name. Raises EngineFault where its files are gone, broken
        or replaced meanwhile.
        """
        name = adapter.name
        if name not in self._held:
            self._let_go()
            self._held[name] = self._read(adapter)
        self._held[name].rows += 1
        self._held[name].wanted = weakref.ref(adapter)
        return name

    def close(self, name: str) -> None:
        """A row with it is gone."""
        if name:
            self._held[name].rows -= 1

    def _read(self, adapter: Adapter) -> _Held:
        try:
            sides = _sides(adapter)
            replaced = adapter.replaced  # only now: what was read is what it was made of, if that is still there
        except (RuntimeError, KeyError, OSError) as error:
            raise EngineFault(f"the adapter in {adapter.directory} cannot be read: {error}") from error
        if replaced:
            raise EngineFault(
                f"the adapter in {adapter.directory} was replaced before this answer could begin; ask again"
            )
        layers = {
            path: Adapted(self._layers[path], pair["a"], pair["b"], adapter.scale) for path, pair in sides.items()
        }
        held = sum(side.nbytes for pair in sides.values() for side in pair.values())
        log.get().info("engine.adapter_read", adapter=adapter.directory, digest=adapter.digest, bytes=held)
        return _Held(adapter.directory, layers, held, weakref.ref(adapter))

    def _let_go(self) -> None:
        for name, held in list(self._held.items()):
            if not held.rows and (held.wanted() is None or held.directory not in self._kept):
                if self._current == name:
                    self._use("")
                del self._held[name]
                log.get().info("engine.adapter_let_go", adapter=held.directory, bytes=held.bytes)

    def _changes(self, name: str) -> Mapping[str, nn.Module]:
        return self._held[name].layers if name else {}

    def _use(self, name: str) -> None:
        if name == self._current:
            return
        for path in self._changes(self._current):
            parent, key = self._places[path]
            parent[key] = self._layers[path]
        for path, layer in self._changes(name).items():
            parent, key = self._places[path]
            parent[key] = layer
        self._current = name


def _sides(adapter: Adapter) -> dict[str, dict[str, mx.array]]:
    """Both factors of each layer it changes, in memory."""
    stored = mx.load(adapter.file)
    sides: dict[str, dict[str, mx.array]] = {}
    for factor in adapter.factors:
        value = stored[factor.name]
        sides.setdefault(factor.path, {})[factor.side] = value.T if factor.turned else value
    mx.eval(sides)
    return sides


def _is_linear(layer: nn.Module) -> bool:
    """Not what a model derives from these: it may give several arrays."""
    return type(layer) in (nn.Linear, nn.QuantizedLinear)


def _shape(layer: nn.Module) -> tuple[int, int]:
    outputs, inputs = layer.weight.shape
    if isinstance(layer, nn.QuantizedLinear):
        inputs = inputs * 32 // layer.bits
    return inputs, outputs


def place_of(model: nn.Module, path: str) -> tuple[Any, Any]:
    """What holds the layer at a path, and under which key: modules are mappings, lists of layers are lists."""
    at: Any = model
    *above, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in above:
        at = at[part]
    return at, last
