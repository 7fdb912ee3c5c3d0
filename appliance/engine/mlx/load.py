"""Loads a checkpoint with mlx-lm and gives its weights the dtype rule's type."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import dequantize_model, load_model

from appliance.engine.mlx.refusal import refused
from appliance.errors import LoadFailed
from appliance.vocab.spec import EngineSpec

Progress = Callable[[str, float], None]

# Parameters are materialised in slices of this many bytes, so that progress moves and a hang-up is noticed.
SLICE_BYTES = 256 * 1024 * 1024

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


@dataclass(frozen=True, slots=True)
class Loaded:
    model: nn.Module
    config: dict[str, Any]
    weight_bytes: int
    dtype: str
    seconds: float


def on_cpu() -> bool:
    """Whether the default device is the CPU: its float16 and quantized kernels are not vectorised."""
    return mx.default_device().type == mx.DeviceType.cpu


def without_compile_where_it_fails() -> str | None:
    """Switch `mx.compile` off where the wheel cannot compile; returns the reason, for the log."""
    try:
        mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + 1)(mx.ones((4,))))
    except RuntimeError as error:
        mx.disable_compile()
        return str(error).splitlines()[0][:200]
    return None


def load(spec: EngineSpec, progress: Progress) -> Loaded:
    """Read, convert and materialise the weights of `spec.path`. Raises LoadFailed, saying if a retry can help."""
    started = time.perf_counter()
    path = Path(spec.path)
    progress("reading", 0.0)
    model, config = _read(path, spec.trust_remote_code)
    dtype = _convert(model, spec.dtype)
    weight_bytes = _materialise(model, progress)
    return Loaded(model, config, weight_bytes, dtype, time.perf_counter() - started)


def _read(path: Path, trust_remote_code: bool) -> tuple[nn.Module, dict[str, Any]]:
    try:
        return load_model(path, lazy=True, trust_remote_code=trust_remote_code)
    except FileNotFoundError as error:
        raise refused(path, "not a model directory", error) from error
    except (ValueError, KeyError, TypeError, json.JSONDecodeError, ImportError) as error:
        raise refused(path, "cannot be loaded", error) from error
    except RuntimeError as error:  # mlx: unreadable or truncated safetensors
        raise refused(path, "its weights cannot be read", error) from error


def _convert(model: nn.Module, asked: str) -> str:
    """Apply the dtype rule in place and name the result: on CPU `auto` is float32 without quantization,
    elsewhere the checkpoint's own type.
    """
    if on_cpu():
        _cast(model, mx.float32)  # float32 scales first: dequantizing with float16 ones takes four times as long
        dequantize_model(model)
        asked = "float32" if asked == "auto" else asked
    if asked != "auto":
        _cast(model, DTYPES[asked])
        return asked
    kinds = {str(p.dtype).removeprefix("mlx.core.") for _, p in tree_flatten(model.parameters())}
    return "+".join(sorted(kinds))


def _cast(model: nn.Module, dtype: mx.Dtype) -> None:
    model.update(
        tree_map(lambda p: p.astype(dtype) if mx.issubdtype(p.dtype, mx.floating) else p, model.parameters())
    )


def _materialise(model: nn.Module, progress: Progress) -> int:
    parameters = [p for _, p in tree_flatten(model.parameters())]
    total = max(1, sum(p.nbytes for p in parameters))
    done, pending, pending_bytes = 0, [], 0
    for parameter in parameters:
        pending.append(parameter)
        pending_bytes += parameter.nbytes
        if pending_bytes >= SLICE_BYTES or parameter is parameters[-1]:
            _evaluate(pending)
            done, pending, pending_bytes = done + pending_bytes, [], 0
            progress("weights", done / total)
    mx.clear_cache()
    return total


def _evaluate(arrays: list[mx.array]) -> None:
    try:
        mx.eval(arrays)
    except RuntimeError as error:  # mlx: a file cut short, or no memory
        raise LoadFailed(f"the weights cannot be brought into memory: {error}") from error
