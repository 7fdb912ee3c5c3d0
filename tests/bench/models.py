"""Which model directory a benchmark loads: the same files for every target."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from tests import checkpoints

NAMES = ("float32", "tiny", "converted")


def directory(name: str) -> Path:
    """`float32`: SmolLM2 in float32, `converted`: as it comes out of the GGUF, `tiny`: random; or a path."""
    match name:
        case "float32":
            return _once("smollm2-float32", _float32)
        case "tiny":
            return _once("tiny-llama", checkpoints.tiny_llama)
        case "converted":
            return checkpoints.smollm2()
        case path:
            return Path(path).resolve(strict=True)


def _once(name: str, make: Callable[[Path], object]) -> Path:
    """Made where it is not there yet, and complete or not there at all."""
    path = checkpoints.shared_store().root / "bench" / name
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(dir=path.parent)) / name
        make(fresh)
        fresh.rename(path)
        fresh.parent.rmdir()
    return path


def _float32(path: Path) -> None:
    source = str(checkpoints.smollm2())
    command = [sys.executable, "-m", "mlx_lm", "convert", "--hf-path", source, "--mlx-path", str(path)]
    subprocess.run(
        [*command, "--dequantize", "--dtype", "float32"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
