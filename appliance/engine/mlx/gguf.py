"""Turns a GGUF file of the llama architecture into an MLX model directory.

`python -m appliance.engine.mlx.gguf FILE.gguf DIRECTORY` does it in a process of its own. It writes one JSON object a
line: `{"phase": "convert", "done": n, "total": n}` while it works, then `{"path": "…"}` or
`{"error": "…", "permanent": true}` with exit status 1.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from appliance.engine.mlx import gguf_tokenizer, gguf_weights
from appliance.engine.mlx.gguf_header import Header, Tensor, read_header
from appliance.errors import SourceError

Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""


def convert(source: Path, destination: Path, progress: Progress = lambda done, total: None) -> None:
    """Write the model directory `destination`, which must not exist; it appears whole or not at all.

    Raises SourceError naming what is wrong with the file or cannot be converted.
    """
    header = read_header(source)
    metadata = header.metadata
    if "token_embd.weight" not in header.tensors:
        raise SourceError(f"{source.name} holds no language model: it has no token embeddings")
    files = {
        "tokenizer.json": gguf_tokenizer.tokenizer_json(metadata),
        "tokenizer_config.json": gguf_tokenizer.tokenizer_config(metadata),
        "generation_config.json": gguf_tokenizer.generation_config(metadata),
    }
    factors = _factors(source, header)
    config = gguf_weights.model_config(header, factors)
    gguf_weights.check_names(header, config["num_hidden_layers"])
    weights = gguf_weights.model_weights(_arrays(source, header, progress), config)
    quantization = gguf_weights.quantization(weights)
    ends = {k: v for k, v in files["generation_config.json"].items() if k.endswith("_token_id")}
    config |= ends | ({"quantization": quantization} if quantization else {})
    _write(destination, files | {"config.json": config}, weights)
    progress(len(header.tensors) + 1, len(header.tensors) + 1)


def _arrays(source: Path, header: Header, progress: Progress) -> dict[str, mx.array]:
    arrays: dict[str, mx.array] = {}
    for done, tensor in enumerate(header.tensors.values()):
        parts = tensor.format.decode(_blocks(source, tensor), tensor.shape[-1])
        stem = tensor.name.removesuffix("weight")
        arrays |= {
            stem + part: array.squeeze(0) if len(tensor.shape) == 1 else array for part, array in parts.items()
        }
        progress(done + 1, len(header.tensors) + 1)
    return arrays


def _factors(source: Path, header: Header) -> np.ndarray | None:
    tensor = header.tensors.get("rope_freqs.weight")
    return None if tensor is None else _blocks(source, tensor).reshape(-1).view(np.float32)


def _blocks(source: Path, tensor: Tensor) -> np.ndarray:
    raw = np.memmap(source, np.uint8, "r", tensor.offset, (tensor.size,))
    return np.asarray(raw).reshape(-1, tensor.format.size)


def _write(destination: Path, files: dict[str, Any], weights: dict[str, mx.array]) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        for name, content in files.items():
            (part / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        mx.save_safetensors(str(part / "model.safetensors"), weights, metadata={"format": "mlx"})
        part.chmod(0o755)
        part.rename(destination)
    except OSError as error:
        raise SourceError(f"cannot write {destination}: {error.strerror}", permanent=False) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def main(arguments: list[str]) -> int:
    source, destination = map(Path, arguments)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    try:
        convert(source, destination, lambda done, total: say({"phase": "convert", "done": done, "total": total}))
    except SourceError as error:
        say({"error": error.message, "permanent": error.permanent})
        return 1
    say({"path": str(destination)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
