"""How much memory an engine's process will take for its weights, read from the headers of the model's files.

No weights are read, so this is fast enough for every reload; it may block and belongs in a thread.
"""

import json
from math import prod
from pathlib import Path
from typing import Any

from appliance.vocab.spec import DType

ENGINE_BASE_BYTES = 400 * 1024**2
"""A process with mlx and transformers imported, before any weights."""
FAKE_BASE_BYTES = 64 * 1024**2

_WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}
_STORED_WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "I64": 8, "U8": 1, "I8": 1, "BOOL": 1}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_DEFAULT_GROUP = 64
_MAX_HEADER = 100 * 1024**2


def measure(directory: Path, dtype: DType, *, cpu: bool) -> int:
    """Bytes of the weights once loaded; 0 for a directory without safetensors files.

    On the CPU everything is dequantized and `auto` means float32; elsewhere quantized tensors stay as stored.
    """
    width = _WIDTH.get("float32" if cpu and dtype == "auto" else dtype)
    group = _group_size(directory) if cpu else None
    total = 0
    for file in sorted(directory.glob("*.safetensors")):
        tensors = _header(file)
        total += sum(_bytes(name, tensor, tensors, width, group) for name, tensor in tensors.items())
    return total


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


def _header(file: Path) -> dict[str, dict[str, Any]]:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        text = opened.read(size) if size <= _MAX_HEADER else b"{}"
    try:
        tensors = json.loads(text)
    except ValueError:
        return {}  # The engine will refuse this file and say why.
    return {name: tensor for name, tensor in tensors.items() if name != "__metadata__"}


def _group_size(directory: Path) -> int:
    try:
        config = json.loads((directory / "config.json").read_bytes())
    except (OSError, ValueError):
        return _DEFAULT_GROUP
    quantization = config.get("quantization") or {}
    group = quantization.get("group_size") if isinstance(quantization, dict) else None
    return group if isinstance(group, int) else _DEFAULT_GROUP
