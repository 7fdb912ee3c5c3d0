"""Sources that are files of this machine: directories and scripts are checked, GGUF files converted."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

import appliance
from appliance.config.deployment import Source
from appliance.errors import SourceError
from appliance.models.disk import check_room
from appliance.models.progress import Report
from appliance.models.store import Store, complete

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def check_directory(source: Source, store: Store, report: Report) -> None:
    """Raises what keeps a directory from being a model: it is never fetched."""
    path = Path(source.ref)
    if not path.exists():
        raise SourceError(f"no directory {path}")
    if not path.is_dir():
        raise SourceError(f"{path} is neither a model directory nor a .gguf file")
    if not (path / "config.json").is_file():
        ggufs = sorted(path.glob("*.gguf"))
        hint = f"name the file: {ggufs[0]}" if ggufs else "is it the right directory?"
        raise SourceError(f"{path} is no model directory: it has no config.json; {hint}")
    if not any(path.glob("*.safetensors")):
        pickles = next((file.name for pattern in _PICKLES for file in path.glob(pattern)), None)
        what = f"only {pickles}; convert it to safetensors first" if pickles else "no *.safetensors file"
        raise SourceError(f"{path} holds no weights we load: {what}")
    if not complete(path):
        raise SourceError(f"{path} is incomplete: model.safetensors.index.json names files that are not there")


def check_script(source: Source, store: Store, report: Report) -> None:
    if not Path(source.ref).is_file():
        raise SourceError(f"no script {source.ref}")


def convert(source: Source, store: Store, report: Report) -> None:
    destination = store.converted(source)
    if destination is None:
        raise SourceError(f"no file {source.ref}")
    convert_file(Path(source.ref), destination, report)


def convert_file(file: Path, destination: Path, report: Report) -> None:
    """Convert a GGUF file in a process of its own, which alone loads the array framework."""
    check_room(destination.parent, file.stat().st_size * 2)
    for left_over in destination.parent.glob(f".{destination.name}.*"):
        shutil.rmtree(left_over, ignore_errors=True)
    said, complaints = _converter(file, destination, report)
    if "error" in said:
        raise SourceError(str(said["error"]), permanent=bool(said["permanent"]))
    if "path" not in said:
        words = complaints[-1] if complaints else "it ended without a word"
        raise SourceError(f"converting {file.name} failed: {words}", permanent=False)


def _converter(file: Path, destination: Path, report: Report) -> tuple[dict[str, Any], list[str]]:
    """The last object the converter wrote to stdout, and the lines it wrote to stderr."""
    command = [sys.executable, "-P", "-m", "appliance.engine.mlx.gguf", str(file), str(destination)]
    said: dict[str, Any] = {}
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=_environ()) as child,
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                said = msgspec.json.decode(line, type=dict[str, Any])
                if "phase" in said:
                    report("convert", int(said["done"]), int(said["total"]))
        finally:
            if "path" not in said and "error" not in said:
                child.kill()
        complaints.seek(0)
        return said, complaints.read().splitlines()


def _environ() -> dict[str, str]:
    """The converter is this very package, not what the current directory or another installation calls so."""
    root = str(Path(appliance.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}
