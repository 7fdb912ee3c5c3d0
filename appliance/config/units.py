"""Quantities with units: tokens, bytes, shares of memory, durations, and the words that stand for them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of this machine's memory, 0..1."""

    of_memory: float


Amount = int | float | Share


class NotAQuantity(ValueError):
    """`hint` says how it is written."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def duration(value: str | int | float) -> float:
    """Seconds. Raises NotAQuantity."""
    number, unit = _split(value, "a duration", "300ms, 15s, 5m, 2h or 7d")
    if unit not in SECONDS:
        fault = f"{unit} is not a unit of time" if unit else "a duration needs a unit"
        raise NotAQuantity(fault, f"write {_digits(number)}s, or with ms, m, h or d")
    return number * SECONDS[unit]


def duration_or_never(value: str | int | float) -> float:
    """Seconds, infinity for `never`. Raises NotAQuantity."""
    return math.inf if value == "never" else duration(value)


def size(value: str | int | float) -> int:
    """Bytes. Raises NotAQuantity."""
    number, unit = _split(value, "a size", "512MiB or 8GiB")
    if unit not in BYTES:
        fault = f"{unit} is not a unit of size" if unit else "a size needs a unit"
        raise NotAQuantity(fault, f"write {_digits(number)}MiB or {_digits(number)}GiB")
    return round(number * BYTES[unit])


def memory(value: str | int | float) -> int | Share:
    """Bytes, or a share of this machine's memory. Raises NotAQuantity."""
    number, unit = _split(value, "an amount of memory", "8GiB or 75%")
    if unit != "%":
        return size(value)
    if number > 100:
        raise NotAQuantity(f"{_digits(number)}% is more than the machine has", "write 100% or less")
    return Share(number / 100)


def tokens(value: str | int | float) -> int:
    """Tokens, of which `k` is 1024. Raises NotAQuantity."""
    number, unit = _split(value, "a number of tokens", "4096 or 32k")
    if unit not in ("", "k") or (unit == "" and not number.is_integer()):
        raise NotAQuantity(f"{value} is not a number of tokens", "write 4096 or 32k (k is 1024)")
    return round(number * 1024) if unit else int(number)


UNITS: Mapping[str, Callable[[str | int | float], Amount]] = {
    "duration": duration,
    "duration_or_never": duration_or_never,
    "bytes": size,
    "memory": memory,
    "tokens": tokens,
}


def show_bytes(count: float) -> str:
    """`21.4 GiB`, `96.5 MiB`."""
    unit = next((u for u in ("TiB", "GiB", "MiB") if count >= BYTES[u]), "KiB")
    return f"{count / BYTES[unit]:.1f} {unit}"


def show_duration(seconds: float) -> str:
    """`15m`, `300ms`, `never`: in the largest unit that gives a whole number."""
    if math.isinf(seconds):
        return "never"
    for unit in ("d", "h", "m", "s"):
        if seconds and (seconds / SECONDS[unit]).is_integer():
            return f"{seconds / SECONDS[unit]:.0f}{unit}"
    return f"{seconds * 1000:g}ms"


def show_tokens(count: int) -> str:
    """`32k`, `1000`."""
    return f"{count // 1024}k" if count and count % 1024 == 0 else str(count)


def _split(value: str | int | float, what: str, like: str) -> tuple[float, str]:
    text = value if isinstance(value, str) else repr(value)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise NotAQuantity(f"{value} is not {what}", f"write it like {like}")
    return float(match[1]), match[2]


def _digits(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)
