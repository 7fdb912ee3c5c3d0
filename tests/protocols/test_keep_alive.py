"""`keep_alive` as Ollama's clients send it."""

import math
from typing import Any

import msgspec
import pytest

from appliance.errors import BadRequest
from appliance.protocols.keep_alive import keep_alive

GOOD: dict[str, tuple[Any, float | None]] = {
    "seconds": (300, 300.0),
    "a part of a second": (0.5, 0.5),
    "nothing": (0, 0.0),
    "for good": (-1, math.inf),
    "minutes": ("5m", 300.0),
    "hours and minutes": ("1h30m", 5400.0),
    "a fraction": ("1.5h", 5400.0),
    "milliseconds": ("300ms", 0.3),
    "days": ("2d", 172800.0),
    "a number in a text": ("90", 90.0),
    "for good in a text": ("-1", math.inf),
    "for good with a unit": ("-1s", math.inf),
    "longer than Go can say": ("9999999999999999", math.inf),
    "no wish": (None, None),
}


@pytest.mark.parametrize("sent, seconds", GOOD.values(), ids=GOOD.keys())
def test_a_wish_in_seconds(sent: Any, seconds: float | None) -> None:
    read = keep_alive("keep_alive", msgspec.Raw(msgspec.json.encode(sent)))
    assert read == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("sent", ["", "soon", "5 m", "5min", "m", "1h-2m", "9" * 100, True, [], {}], ids=repr)
def test_what_is_no_duration_is_refused_by_name(sent: Any) -> None:
    with pytest.raises(BadRequest, match="keep_alive"):
        keep_alive("keep_alive", msgspec.Raw(msgspec.json.encode(sent)))
