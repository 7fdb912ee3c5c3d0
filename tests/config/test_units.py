"""Quantities: what is read, what is refused with which hint, and how they are shown."""

import math
from datetime import date

import pytest

from appliance.config.units import (
    UNITS,
    Bound,
    NotAQuantity,
    Rate,
    Share,
    Window,
    seconds,
    show_bytes,
    show_duration,
    show_rate,
    show_size,
    show_tokens,
    show_window,
)


@pytest.mark.parametrize(
    ("unit", "written", "value"),
    [
        ("duration", "300ms", 0.3),
        ("duration", "0s", 0.0),
        ("duration", "1.5m", 90.0),
        ("duration", "2h", 7200.0),
        ("duration", "7d", 604800.0),
        ("duration_or_never", "never", math.inf),
        ("duration_or_never", "15m", 900.0),
        ("bytes", "1KiB", 1024),
        ("bytes", "32MiB", 32 * 2**20),
        ("bytes", "1.5GiB", 3 * 2**29),
        ("bytes", "2TiB", 2**41),
        ("memory", "8GiB", 2**33),
        ("memory", "75%", Share(0.75)),
        ("memory", "0.5%", Share(0.005)),
        ("tokens", 4096, 4096),
        ("tokens", "32k", 32768),
        ("tokens", "1.5k", 1536),
        ("rate", "60/m", Rate(60, 60.0)),
        ("rate", "200k/h", Rate(204800, 3600.0)),
        ("bound", ">24k", Bound(">", 24576)),
        ("bound", "<= 100", Bound("<=", 100)),
        ("bound", 100, Bound(">=", 100)),
        ("requests_bound", ">4", Bound(">", 4)),
        ("requests_bound", 4, Bound(">=", 4)),
        ("load_bound", ">= 100%", Bound(">=", 100, "%")),
        ("load_bound", "<50%", Bound("<", 50, "%")),
        ("window", "22:00-07:30", Window(1320, 450)),
        ("date", "2027-06-30", date(2027, 6, 30)),
    ],
)
def test_a_quantity_is_read(unit: str, written: str | int, value: object) -> None:
    assert UNITS[unit](written) == value


@pytest.mark.parametrize(
    ("unit", "written", "message", "hint"),
    [
        ("duration", 30, "a duration needs a unit", "write 30s, or with ms, m, h or d"),
        ("duration", 1.5, "a duration needs a unit", "write 1.5s, or with ms, m, h or d"),
        ("duration", "30", "a duration needs a unit", "write 30s, or with ms, m, h or d"),
        ("duration", "5min", "min is not a unit of time", "write 5s, or with ms, m, h or d"),
        ("duration", "-5s", "-5s is not a duration", "write it like 300ms, 15s, 5m, 2h or 7d"),
        ("duration", "never", "never is not a duration", "write it like 300ms, 15s, 5m, 2h or 7d"),
        ("duration", "", " is not a duration", "write it like 300ms, 15s, 5m, 2h or 7d"),
        ("bytes", 1024, "a size needs a unit", "write 1024MiB or 1024GiB"),
        ("bytes", "8GB", "GB is not a unit of size", "write 8MiB or 8GiB"),
        ("bytes", "75%", "% is not a unit of size", "write 75MiB or 75GiB"),
        ("memory", "101%", "101% is more than the machine has", "write 100% or less"),
        ("memory", "lots", "lots is not an amount of memory", "write it like 8GiB or 75%"),
        ("tokens", "32K", "32K is not a number of tokens", "write 4096 or 32k (k is 1024)"),
        ("tokens", 1.5, "1.5 is not a number of tokens", "write 4096 or 32k (k is 1024)"),
        ("tokens", "many", "many is not a number of tokens", "write it like 4096 or 32k"),
        ("bound", "<0", "<0 never holds", "it is at least 0"),
        ("bound", 0, ">=0 always holds", "delete it"),
        ("requests_bound", ">4k", "4k is not a number of requests", "write it like >4 or <=16"),
        ("requests_bound", ">=0", ">=0 always holds", "delete it"),
        ("load_bound", 80, "80 is no part of the rows", "write it like >80% or <50%"),
        ("load_bound", ">0.5%", ">0.5% is no part of the rows", "write it like >80% or <50%"),
        ("load_bound", ">100%", ">100% never holds", "it is at least 0 and at most 100%"),
        ("load_bound", "<=100%", "<=100% always holds", "delete it"),
        ("rate", "60", "60 is not a rate", "write it like 60/m or 200k/h"),
        ("rate", "60/min", "60/min is not a rate", "write it like 60/m or 200k/h"),
        ("rate", "60/ms", "60/ms is not a rate", "write it like 60/m or 200k/h"),
        ("bound", "~24k", "~24k is not a bound", "write it like >24k or <=4096"),
        ("window", "9-17", "9-17 is not a part of the day", "write it like 22:00-07:00"),
        ("window", "24:00-07:00", "24:00-07:00 is not a part of the day", "write it like 22:00-07:00"),
        ("window", "07:00-07:00", "07:00-07:00 is no time at all", "delete it for the whole day"),
        ("date", "2027-02-30", "2027-02-30 is not a day", "write it like 2027-06-30"),
        ("date", "20270630", "20270630 is not a day", "write it like 2027-06-30"),
    ],
)
def test_what_is_no_quantity_is_refused_with_a_hint(unit: str, written: str | float, message: str, hint: str) -> None:
    with pytest.raises(NotAQuantity) as refused:
        UNITS[unit](written)
    assert (refused.value.message, refused.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.3, "300ms"),
        (0.0, "0ms"),
        (90.0, "90s"),
        (900.0, "15m"),
        (7200.0, "2h"),
        (86400.0, "1d"),
        (math.inf, "never"),
    ],
)
def test_a_duration_is_shown_as_it_would_be_written(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown
    assert UNITS["duration_or_never"](shown) == seconds


@pytest.mark.parametrize(("count", "shown"), [(32768, "32k"), (1000, "1000"), (0, "0"), (1536, "1536")])
def test_tokens_are_shown_as_they_would_be_written(count: int, shown: str) -> None:
    assert show_tokens(count) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0.0 KiB"), (1024, "1.0 KiB"), (2**20, "1.0 MiB"), (3 * 2**29, "1.5 GiB"), (2**40, "1.0 TiB")],
)
def test_bytes_are_shown_in_the_unit_that_fits(count: int, shown: str) -> None:
    assert show_bytes(count) == shown


@pytest.mark.parametrize(
    ("text", "seconds_of_it"),
    [("90", 90), ("0.5", 0.5), (300.0, 300), ("60s", 60), ("2h", 7200), ("0", 0), ("inf", math.inf)],
)
def test_who_waits_says_how_long_with_a_unit_or_in_seconds(text: str | float, seconds_of_it: float) -> None:
    assert seconds(text) == seconds_of_it


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "5x", ""])
def test_who_waits_cannot_wait_for_what_is_no_time(text: str) -> None:
    with pytest.raises(NotAQuantity):
        seconds(text)


@pytest.mark.parametrize("shown", ["60/m", "200k/h", "1/s"])
def test_a_rate_is_shown_as_it_would_be_written(shown: str) -> None:
    assert show_rate(UNITS["rate"](shown)) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize("shown", ["22:00-07:00", "00:05-23:59"])
def test_a_part_of_the_day_is_shown_as_it_would_be_written(shown: str) -> None:
    assert show_window(UNITS["window"](shown)) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "shown"), [(2**33, "8GiB"), (3 * 2**29, "1536MiB"), (0, "0MiB"), (10**9, "953.67MiB"), (2**40, "1TiB")]
)
def test_a_size_is_shown_as_it_would_be_written(count: int, shown: str) -> None:
    assert show_size(count) == shown
    assert UNITS["bytes"](shown) == pytest.approx(count, abs=2**20 / 100)


@pytest.mark.parametrize(
    ("bound", "holds", "fails"), [("<5", 4, 5), ("<=5", 5, 6), (">5", 6, 5), (">=5", 5, 4), ("5", 5, 4)]
)
def test_a_bound_holds_on_its_side(bound: str, holds: int, fails: int) -> None:
    read = UNITS["bound"](bound)
    assert isinstance(read, Bound)
    assert read.holds(holds)
    assert not read.holds(fails)


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [("09:00-17:00", [540, 1019], [539, 1020, 0]), ("22:00-07:00", [1320, 1439, 0, 419], [420, 1319])],
    ids=["by day", "past midnight"],
)
def test_a_part_of_the_day_may_pass_midnight(window: str, inside: list[int], outside: list[int]) -> None:
    read = UNITS["window"](window)
    assert isinstance(read, Window)
    assert all(map(read.holds, inside))
    assert not any(map(read.holds, outside))
