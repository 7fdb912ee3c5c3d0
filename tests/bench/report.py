"""The common ends of every benchmark: its options, its JSON file, its table."""

import json
import os
import platform
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.bench.process import NOISE_CORES

PACKAGES = ("mlx-appliance", "mlx", "mlx-lm", "sanic", "aiohttp")


def options(description: str | None) -> ArgumentParser:
    """`--model --rounds --wait-quiet --out`."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--model", default="float32", help="float32, converted, tiny, or a model directory")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--wait-quiet", type=float, default=0, metavar="S", help="wait up to S seconds for an idle machine"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for every figure measured")
    return parser


def save(asked: Namespace, content: dict[str, Any]) -> None:
    """Write what was measured so far, with what it was measured on."""
    if asked.out is not None:
        facts = {
            "at": time.strftime("%Y-%m-%d %H:%M:%S"),
            "machine": f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
            "versions": {name: version(name) for name in PACKAGES},
            "options": {name: str(value) for name, value in vars(asked).items()},
        }
        asked.out.write_text(json.dumps(facts | content, indent=1))


class Measured(Protocol):
    @property
    def other_cores(self) -> float: ...


M = TypeVar("M", bound=Measured)


def quiet(samples: Sequence[M]) -> tuple[Sequence[M], str]:
    """The samples no other process disturbed, all where there are none, and how many they are: 6/7."""
    undisturbed = [sample for sample in samples if sample.other_cores <= NOISE_CORES]
    return undisturbed or samples, f"{len(undisturbed)}/{len(samples)}"


def milliseconds(seconds: float) -> str:
    """For a cell of a table."""
    return f"{seconds * 1000:.1f}"
