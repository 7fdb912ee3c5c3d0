"""What a LoRA adapter's directory holds, and whether it fits a model: names, shapes, rank. Reads headers, no weights.

Two layouts are known: mlx-lm's (`adapters.safetensors`, factors `lora_a` (in, rank) and `lora_b` (rank, out)), and
PEFT's (`adapter_model.safetensors`, `lora_A` (rank, in) and `lora_B` (out, rank)).
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.errors import BadRequest

Targets = Mapping[str, tuple[int, int]]
"""A model's linear layers by path: (inputs, outputs)."""

_MLX = re.compile(r"(?P<path>.+)\.lora_(?P<side>[ab])")
_PEFT = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<side>[AB])\.(default\.)?weight")
_MAX_HEADER = 64 * 1024 * 1024
_DESCRIPTION = "adapter_config.json"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Factor:
    """One stored tensor: `side` a or b of the layer at `path`, `turned` where it is stored the other way round."""

    name: str
    path: str
    side: str
    turned: bool


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Adapter:
    """One that fits. `digest` is that of its files, `scale` what the product of its factors is multiplied with.

    What is read of it is held for as long as somebody has it: a sequence, or `Adapters` as the newest of its place.
    """

    directory: str
    file: str
    digest: str
    scale: float
    rank: int
    factors: tuple[Factor, ...]

    @property
    def name(self) -> str:
        """Another one when its files change."""
        return f"{self.directory}@{self.digest}"

    @property
    def replaced(self) -> bool:
        """Whether its files are not those it was made of any more. Reads them; raises OSError."""
        return _digest(Path(self.directory)) != self.digest


def read(directory: str, targets: Targets) -> Adapter:
    """Raises BadRequest, naming the adapter's directory and what does not fit."""
    try:
        return _read(Path(directory), targets)
    except _Unfit as unfit:
        raise BadRequest(f"the adapter in {directory} cannot be used: {unfit}", param="adapter") from None
    except OSError as error:
        raise BadRequest(f"the adapter in {directory} cannot be read: {error.strerror}", param="adapter") from None


class Adapters:
    """Those that were checked already; one whose files change is checked again. Thread-safe."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._checked: dict[str, tuple[object, Adapter]] = {}

    def find(self, directory: str) -> Adapter:
        """Raises BadRequest as `read` does, and for one whose files change while they are read."""
        known = self._checked.get(directory)
        if known is not None and known[0] == _state(Path(directory)):
            return known[1]
        for _ in range(_TRIES):
            state = _state(Path(directory))
            found = read(directory, self._targets)
            if _state(Path(directory)) == state:
                self._checked[directory] = (state, found)
                return found
        raise BadRequest(f"the adapter in {directory} is being replaced; ask again", param="adapter")


def _state(directory: Path) -> object:
    try:
        return sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in directory.iterdir())
    except OSError:
        return None


class _Unfit(ValueError):
    """Says what is wrong."""


def _read(directory: Path, targets: Targets) -> Adapter:
    if not targets:
        raise _Unfit("this engine's model has no linear layers that could be adapted")
    described = directory / _DESCRIPTION
    if not described.is_file():
        raise _Unfit("it has no adapter_config.json")
    try:
        config = json.loads(described.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _Unfit(f"its adapter_config.json is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise _Unfit("its adapter_config.json is no object")
    file = _weights(directory)
    if file is None:
        raise _Unfit("it has neither adapters.safetensors nor adapter_model.safetensors")
    rank, scale = _peft(config) if "peft_type" in config else _mlx(config)
    factors = _factors(_header(file), targets, rank)
    return Adapter(str(directory), str(file), _digest(directory), scale, rank, factors)


def _weights(directory: Path) -> Path | None:
    return next((f for n in ("adapters", "adapter_model") if (f := directory / f"{n}.safetensors").is_file()), None)


def _digest(directory: Path) -> str:
    """Of both files; of none where they are not there."""
    digest = hashlib.sha256()
    for file in (directory / _DESCRIPTION, _weights(directory)):
        if file is not None and file.is_file():
            with file.open("rb") as stream:
                hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()[:16]


def _mlx(config: Mapping[str, Any]) -> tuple[int, float]:
    kind = config.get("fine_tune_type", "lora")
    if kind != "lora":
        raise _Unfit(f"it was made with fine_tune_type {kind}; only lora is applied without reloading the model")
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict):
        raise _Unfit("its adapter_config.json has no lora_parameters")
    return _positive(parameters, "rank"), _number(parameters, "scale")


def _peft(config: Mapping[str, Any]) -> tuple[int, float]:
    if config["peft_type"] != "LORA" or config.get("use_dora"):
        kind = "DORA" if config.get("use_dora") else config["peft_type"]
        raise _Unfit(f"it was made with {kind}; only plain LoRA is applied without reloading the model")
    if config.get("rank_pattern") or config.get("alpha_pattern"):
        raise _Unfit("its layers have ranks or scales of their own, which is not supported")
    rank, alpha = _positive(config, "r"), _number(config, "lora_alpha")
    return rank, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _positive(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _Unfit(f"its `{name}` is no positive number: {value}")
    return value


def _number(config: Mapping[str, Any], name: str) -> float:
    value = config.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _Unfit(f"its `{name}` is no number: {value}")
    return float(value)


def _factors(header: Mapping[str, Any], targets: Targets, rank: int) -> tuple[Factor, ...]:
    found: dict[tuple[str, str], Factor] = {}
    for name, tensor in header.items():
        factor = _factor(name)
        if factor.path not in targets:
            raise _Unfit(f"{name}: this model has no linear layer {factor.path}; was it made for another model?")
        inputs, outputs = targets[factor.path]
        wanted = [inputs, rank] if factor.side == "a" else [rank, outputs]
        shape = list(tensor.get("shape", []))
        if (shape[::-1] if factor.turned else shape) != wanted:
            wanted = wanted[::-1] if factor.turned else wanted
            raise _Unfit(f"{name} has the shape {shape}, not {wanted}; was it made for another model or rank?")
        found[factor.path, factor.side] = factor
    for path, side in found:
        if (path, other := "b" if side == "a" else "a") not in found:
            raise _Unfit(f"{path} has no factor {other}")
    if not found:
        raise _Unfit("it changes no layer")
    return tuple(found.values())


def _factor(name: str) -> Factor:
    for pattern, turned in ((_PEFT, True), (_MLX, False)):
        if match := pattern.fullmatch(name):
            return Factor(name, match["path"], match["side"].lower(), turned)
    raise _Unfit(f"{name} is no factor of a linear layer")


def _header(file: Path) -> dict[str, Any]:
    """A safetensors file's table of tensors: 8 bytes of length, then JSON."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        text = stream.read(min(size, _MAX_HEADER))
    try:
        table = json.loads(text) if 0 < size <= _MAX_HEADER else None
    except ValueError:
        table = None
    if not isinstance(table, dict) or not all(isinstance(tensor, dict) for tensor in table.values()):
        raise _Unfit(f"{file.name} is no safetensors file")
    end = max((tensor.get("data_offsets", [0, 0])[1] for tensor in table.values()), default=0)
    if 8 + size + end > file.stat().st_size:
        raise _Unfit(f"{file.name} is cut short")
    return {name: tensor for name, tensor in table.items() if name != "__metadata__"}
