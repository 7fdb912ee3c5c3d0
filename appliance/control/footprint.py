"""How much memory an engine is expected to take, read from its config.json and the headers of the model's files.

No weights are read, so this is fast enough for every reload; it may block and belongs in a thread.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from appliance.control.activations import activation_bytes
from appliance.control.attention import RowCost, row_cost
from appliance.models.safetensors import header
from appliance.vocab.spec import DType

ENGINE_BASE_BYTES = 256 * 1024**2
"""A process with mlx and transformers imported, before any weights: measured were 165 MiB (PSS, Linux)."""
FAKE_BASE_BYTES = 64 * 1024**2
BASE_BYTES = {"mlx": ENGINE_BASE_BYTES, "fake": FAKE_BASE_BYTES}

_WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}
_STORED_WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "I64": 8, "U8": 1, "I8": 1, "BOOL": 1}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_DEFAULT_GROUP = 64
_ADAPTER_FILES = ("adapters.safetensors", "adapter_model.safetensors")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes: the process without a model, its weights, what its largest step needs beside them; `width` of one of the
    numbers that a row keeps, of which it decodes `rows` together.
    """

    base: int
    weights: int
    activations: int
    row: RowCost
    width: int
    rows: int

    @property
    def loaded(self) -> int:
        """The process when its model is loaded and nothing runs."""
        return self.base + self.weights

    @property
    def state(self) -> int:
        """What a row takes before its first token."""
        return self.row.kept.bytes(self.width)

    @property
    def beside(self) -> int:
        """What it takes when it works beyond what its rows are charged with by the token."""
        return self.activations + self.state * self.rows

    @property
    def token(self) -> int:
        """What each token of a row is charged with."""
        return self.row.growth * self.width


def expect(directory: Path, dtype: DType, *, rows: int, cpu: bool) -> Footprint:
    """For an engine that decodes `rows` rows together, loaded from this directory."""
    config = _config(directory)
    width = _WIDTH[_kind(config, dtype, cpu=cpu)]
    activations = activation_bytes(config, width=width, rows=rows, cpu=cpu)
    weights = measure(directory, dtype, cpu=cpu)
    return Footprint(ENGINE_BASE_BYTES, weights, activations, row_cost(config), width, rows)


def _kind(config: dict[str, Any], dtype: DType, *, cpu: bool) -> str:
    """The type it computes in: what was asked for, on a CPU float32, elsewhere the checkpoint's own."""
    if dtype != "auto":
        return dtype
    text = config.get("text_config")
    own = config.get("torch_dtype") or config.get("dtype") or (text.get("dtype") if isinstance(text, dict) else None)
    return "float32" if cpu else str(own) if own in _WIDTH else "bfloat16"


def measure(directory: Path, dtype: DType, *, cpu: bool) -> int:
    """Bytes of the weights once loaded; 0 for a directory without safetensors files.

    On the CPU everything is dequantized and `auto` means float32; elsewhere quantized tensors stay as stored.
    """
    width = _WIDTH.get("float32" if cpu and dtype == "auto" else dtype)
    group = _group_size(directory) if cpu else None
    total = 0
    for file in sorted(directory.glob("*.safetensors")):
        _, tensors = header(file) or (0, {})  # the engine will refuse a file without one, and say why
        total += sum(_bytes(name, tensor, tensors, width, group) for name, tensor in tensors.items())
    return total


def adapter_bytes(directories: Iterable[str]) -> int:
    """Of LoRA weights, which are held as they are stored. Those whose files are not here count nothing."""
    files = (Path(directory, name) for directory in set(directories) for name in _ADAPTER_FILES)
    return sum(file.stat().st_size for file in files if file.is_file())


def _bytes(name: str, tensor: dict[str, Any], tensors: dict[str, Any], width: int | None, group: int | None) -> int:
    """`width` of a floating point value where it is converted; `group` values share a scale that is undone."""
    kind = str(tensor["dtype"])
    count: int = prod(tensor["shape"])
    stem, _, part = name.rpartition(".")
    quantized = f"{stem}.scales" in tensors
    if group is not None and width is not None and quantized and part in ("weight", "scales", "biases"):
        return count * group * width if part == "scales" else 0
    if width is not None and kind in _FLOATS and not quantized:
        return count * width
    return count * _STORED_WIDTH.get(kind, 2)


def _group_size(directory: Path) -> int:
    quantization = _config(directory).get("quantization") or {}
    group = quantization.get("group_size") if isinstance(quantization, dict) else None
    return group if isinstance(group, int) else _DEFAULT_GROUP


def _config(directory: Path) -> dict[str, Any]:
    try:
        config = json.loads((directory / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}  # The engine will refuse it and say why.
    return config if isinstance(config, dict) else {}
