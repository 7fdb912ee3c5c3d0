"""How long a request wants its model kept in memory after it: Ollama's `keep_alive`, taken by every protocol. PURE.

The form is Ollama's: a number of seconds, or a text of Go's time.ParseDuration (`5m`, `1h30m`, `-1s`), to which we
add days and plain numbers. Below zero is for ever, and so is what Go's int64 of nanoseconds cannot hold.
"""

import math
import re
from typing import Any

from appliance.errors import BadRequest
from appliance.protocols.fields import Reader, typed

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d)"
_TEXT = re.compile(rf"(?P<sign>[-+]?)(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<parts>(?:{_PART})+))", re.ASCII)
_LONGEST = 64
_LONGEST_SECONDS = 2**63 / 1e9


def _seconds(name: str, value: float | str) -> float:
    seconds = _parsed(name, value) if isinstance(value, str) else float(value)
    return math.inf if seconds < 0 or seconds > _LONGEST_SECONDS else seconds


def _parsed(name: str, value: str) -> float:
    match = _TEXT.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None:
        raise BadRequest(f"`{name}` must be a duration like '5m', got {value[:_LONGEST]!r}", param=name)
    parts: Any = re.findall(_PART, match["parts"]) if match["parts"] else [(match["number"], "")]
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return -seconds if match["sign"] == "-" else seconds


keep_alive: Reader = typed(
    float | str, "a number of seconds or a duration like '5m' (0: unload at once, below 0: keep for good)", _seconds
)
