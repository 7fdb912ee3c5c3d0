"""The header of a safetensors file: what its tensors are, and where.

Eight bytes of length, then JSON (https://github.com/huggingface/safetensors#format).
"""

import json
from pathlib import Path
from typing import Any

_LONGEST = 100 * 2**20
"""What the format allows."""


def header(file: Path) -> tuple[int, dict[str, Any]] | None:
    """Where its arrays begin, in bytes, and its tensors by name; None for what is no header. Raises OSError."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        text = opened.read(size) if size <= _LONGEST else b""
    try:
        tensors = json.loads(text)
    except ValueError:
        return None
    if not isinstance(tensors, dict):
        return None
    return 8 + size, {name: tensor for name, tensor in tensors.items() if name != "__metadata__"}
