"""LoRA adapter directories for tests, random or broken, in mlx-lm's layout and in PEFT's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

Shapes = Mapping[str, tuple[int, int]]
"""Layers by path: (inputs, outputs)."""


def factors(shapes: Shapes, *, rank: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    """`path.lora_a` (in, rank) and `path.lora_b` (rank, out) of every layer."""
    random = np.random.default_rng(seed)
    made = {}
    for path, (inputs, outputs) in shapes.items():
        made[f"{path}.lora_a"] = random.normal(size=(inputs, rank)).astype(np.float32) * 0.2
        made[f"{path}.lora_b"] = random.normal(size=(rank, outputs)).astype(np.float32) * 0.2
    return made


def write(
    directory: Path, tensors: Mapping[str, np.ndarray], *, rank: int = 4, scale: float = 2.0, **more: Any
) -> Path:
    """mlx-lm's layout."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {"fine_tune_type": "lora", "num_layers": 2}
    config["lora_parameters"] = {"rank": rank, "scale": scale, "dropout": 0.0}
    (directory / "adapter_config.json").write_text(json.dumps(config | more), encoding="utf-8")
    save_file(dict(tensors), directory / "adapters.safetensors")
    return directory


def write_peft(
    directory: Path, tensors: Mapping[str, np.ndarray], *, rank: int = 4, scale: float = 2.0, **more: Any
) -> Path:
    """PEFT's layout of the same factors."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": scale * rank, "base_model_name_or_path": "some/model"}
    (directory / "adapter_config.json").write_text(json.dumps(config | more), encoding="utf-8")
    turned = {}
    for name, tensor in tensors.items():
        path, _, side = name.rpartition(".lora_")
        turned[f"base_model.model.{path}.lora_{side.upper()}.weight"] = np.ascontiguousarray(tensor.T)
    save_file(turned, directory / "adapter_model.safetensors")
    return directory
