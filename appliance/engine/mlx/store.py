"""Snapshots of keys and values as plain memory, and from files again.

What mlx-lm's caches are made of is their `state`: arrays, numbers and words in tuples and lists. The arrays become
tensors, the rest with the class's name becomes the layout.
"""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import cache as kinds
from mlx_lm.models.cache import CacheList

from appliance import log
from appliance.engine.backend import Snapshot
from appliance.engine.disk_entry import BrokenEntry, Frozen, Tensor
from appliance.engine.mlx.kv import KVSnapshot, nbytes
from appliance.engine.mlx.quantized import QuantizedRow
from appliance.vocab.spec import DiskSettings

_ARRAY = "array"  # an array's place in a layout: {"array": "3"}

_NAMES = {
    mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint32: "U32", mx.int32: "I32", mx.uint8: "U8",
    mx.int64: "I64", mx.bool_: "BOOL",
}  # fmt: skip


class KVFreezer:
    """See `appliance.engine.backend.Freezer`. `path` is the model's directory, `form` that of keys and values, which
    are packed from `packed_from` tokens on.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._path, self._dtype = path, dtype
        self.form = ""
        self.packed_from = 0

    def key(self, settings: DiskSettings) -> str:
        """Other files under the same fingerprint (a branch that moved) are other weights."""
        files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(self._path.iterdir())]
        told = [settings.key, self._dtype, self.form, version("mlx-lm"), files]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]

    def freeze(self, snapshot: Snapshot) -> Frozen | None:
        """Waits for what is not computed yet. None for a kind of cache that is not mlx-lm's own, and where the device
        failed.
        """
        assert isinstance(snapshot, KVSnapshot)
        arrays: dict[str, mx.array] = {}
        layout = [_written(cache, arrays) for cache in snapshot.caches]
        if None in layout or not all(array.dtype in _NAMES for array in arrays.values()):
            return None
        try:
            return Frozen({name: _tensor(array) for name, array in arrays.items()}, layout)
        except (RuntimeError, MemoryError) as error:
            log.get().warning("disk.not_written", tokens=snapshot.length, reason=str(error))
            return None

    def thaw(self, file: Path, layout: Any, length: int) -> KVSnapshot:
        """Raises BrokenEntry. The arrays are read with the first step that needs them."""
        try:
            arrays = mx.load(str(file))
            caches = [_made(written, arrays) for written in layout]
            mx.async_eval([cache.state for cache in caches])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise BrokenEntry(f"its arrays do not fit its layout: {error}") from error
        return KVSnapshot(caches, length, nbytes(caches), self.packed_from)


def _kind(name: str) -> Any:
    """A cache class by its name."""
    return QuantizedRow if name == QuantizedRow.__name__ else getattr(kinds, name, None)


def _tensor(array: mx.array) -> Tensor:
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array  # Python has no buffers of bfloat16
    data = memoryview(plain)  # type: ignore[arg-type]
    if not data.c_contiguous:
        data = memoryview(mx.contiguous(plain))  # type: ignore[arg-type]
    return Tensor(_NAMES[array.dtype], array.shape, data.cast("B") if array.size else memoryview(b""))


def _written(cache: Any, arrays: dict[str, mx.array]) -> Any:
    """A cache's place in the layout, its arrays added; None for a class that cannot be made again."""
    if isinstance(cache, CacheList):
        parts = [_written(part, arrays) for part in cache.caches]
        return None if None in parts else ["CacheList", parts]
    name = type(cache).__name__
    return [name, _state(cache.state, arrays)] if _kind(name) is type(cache) else None


def _state(state: Any, arrays: dict[str, mx.array]) -> Any:
    match state:
        case mx.array():
            name = str(len(arrays))
            arrays[name] = state
            return {_ARRAY: name}
        case list() | tuple():
            return [_state(part, arrays) for part in state]
    return state


def _made(written: Any, arrays: dict[str, mx.array]) -> Any:
    name, state = written
    if name == "CacheList":
        return CacheList(*(_made(part, arrays) for part in state))
    return _kind(name).from_state(_restored(state, arrays))


def _restored(state: Any, arrays: dict[str, mx.array]) -> Any:
    match state:
        case dict():
            return arrays[state[_ARRAY]]
        case list():
            return [_restored(part, arrays) for part in state]
    return state
