"""Quantities with units: tokens, bytes, shares of memory, durations, rates, times of day, and the words for them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NoReturn, cast

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BOUND = re.compile(r"(<=|>=|<|>)?\s*([0-9].*)", re.ASCII)
_WINDOW = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of this machine's memory, 0..1."""

    of_memory: float


@dataclass(frozen=True, slots=True)
class Rate:
    """So many per so many seconds."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison with a number, of tokens where there is no other `unit`: `<`, `<=`, `>` or `>=`."""

    how: Literal["<", "<=", ">", ">="]
    count: int
    unit: Literal["", "%"] = ""

    def holds(self, count: float) -> bool:
        return {"<": count < self.count, "<=": count <= self.count, ">": count > self.count}.get(
            self.how, count >= self.count
        )

    def __str__(self) -> str:
        """As it would be written."""
        return f"{self.how}{self.count}%" if self.unit else f"{self.how}{show_tokens(self.count)}"


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the day in minutes since midnight, the end not in it; it may pass midnight."""

    start: int
    end: int

    def holds(self, minute: int) -> bool:
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


Amount = int | float | Share | Rate | Bound | Window | date


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


def seconds(value: str | int | float) -> float:
    """What somebody is asked for who waits: a duration, or a bare number of seconds. Raises NotAQuantity."""
    try:
        found = float(value)
    except ValueError:
        return duration(value)
    if not found >= 0:
        raise NotAQuantity(f"{value} is not a duration", "write 300ms, 15s, 5m, 2h or 7d")
    return found


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


def rate(value: str | int | float) -> Rate:
    """So many per second, minute, hour or day; `k` is 1024. Raises NotAQuantity."""
    text, slash, unit = str(value).partition("/")
    if not slash or unit not in SECONDS or unit == "ms":
        raise NotAQuantity(f"{value} is not a rate", "write it like 60/m or 200k/h")
    return Rate(tokens(text.strip()), SECONDS[unit])


def bound(value: str | int | float) -> Bound:
    """A comparison like `>24k`; a number alone means at least. Raises NotAQuantity."""
    how, number = _compared(value, ">24k or <=4096")
    return _that_tells(Bound(how, tokens(number)), math.inf)


def requests_bound(value: str | int | float) -> Bound:
    """A comparison like `>4` with a number of requests; a number alone means at least. Raises NotAQuantity."""
    how, number = _compared(value, ">4 or <=16")
    if not number.isdecimal():
        raise NotAQuantity(f"{number} is not a number of requests", "write it like >4 or <=16")
    return _that_tells(Bound(how, int(number)), math.inf)


def load_bound(value: str | int | float) -> Bound:
    """A comparison like `>80%`; a share alone means at least. Raises NotAQuantity."""
    how, number = _compared(value, ">80% or <50%")
    share = _NUMBER.fullmatch(number)
    if share is None or share[2] != "%" or "." in share[1]:
        raise NotAQuantity(f"{value} is no part of the rows", "write it like >80% or <50%")
    return _that_tells(Bound(how, int(share[1]), "%"), 100)


def _compared(value: str | int | float, like: str) -> tuple[Literal["<", "<=", ">", ">="], str]:
    match = _BOUND.fullmatch(str(value))
    if match is None:
        raise NotAQuantity(f"{value} is not a bound", f"write it like {like}")
    return cast(Any, match[1] or ">="), match[2]


def _that_tells(bound: Bound, most: float) -> Bound:
    """Raises NotAQuantity for one that holds for all that can be, or for nothing."""
    if bound.holds(0) and bound.holds(most):
        raise NotAQuantity(f"{bound} always holds", "delete it")
    if not bound.holds(0) and not bound.holds(most):
        raise NotAQuantity(f"{bound} never holds", f"it is at least 0{' and at most 100%' if bound.unit else ''}")
    return bound


def window(value: str | int | float) -> Window:
    """A part of the day like `22:00-07:00`. Raises NotAQuantity."""
    match = _WINDOW.fullmatch(str(value))
    if match is None:
        raise NotAQuantity(f"{value} is not a part of the day", "write it like 22:00-07:00")
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
    if start == end:
        raise NotAQuantity(f"{value} is no time at all", "delete it for the whole day")
    return Window(start, end)


def day(value: str | int | float) -> date:
    """A day like `2027-06-30`. Raises NotAQuantity."""
    try:
        return date.fromisoformat(str(value)) if _DAY.fullmatch(str(value)) else _no_day(value)
    except ValueError:
        return _no_day(value)


def _no_day(value: object) -> NoReturn:
    raise NotAQuantity(f"{value} is not a day", "write it like 2027-06-30")


UNITS: Mapping[str, Callable[[str | int | float], Amount]] = {
    "duration": duration,
    "duration_or_never": duration_or_never,
    "bytes": size,
    "memory": memory,
    "tokens": tokens,
    "rate": rate,
    "bound": bound,
    "requests_bound": requests_bound,
    "load_bound": load_bound,
    "window": window,
    "date": day,
}


def show_bytes(count: float) -> str:
    """`21.4 GiB`, `96.5 MiB`."""
    unit = next((u for u in ("TiB", "GiB", "MiB") if count >= BYTES[u]), "KiB")
    return f"{count / BYTES[unit]:.1f} {unit}"


def show_size(count: int) -> str:
    """`8GiB`, `1536MiB`: as it would be written, exact to a hundredth of a MiB."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % BYTES[unit] == 0:
            return f"{count // BYTES[unit]}{unit}"
    return f"{round(count / BYTES['MiB'], 2):g}MiB"


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


def show_rate(rate: Rate) -> str:
    """`60/m`, `200k/m`."""
    unit = next(name for name, seconds in SECONDS.items() if seconds == rate.seconds)
    return f"{show_tokens(rate.count)}/{unit}"


def show_window(window: Window) -> str:
    """`22:00-07:00`."""
    return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (window.start, window.end))


def _split(value: str | int | float, what: str, like: str) -> tuple[float, str]:
    text = value if isinstance(value, str) else repr(value)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise NotAQuantity(f"{value} is not {what}", f"write it like {like}")
    return float(match[1]), match[2]


def _digits(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)
