"""Quantities: what is read, what is refused with which hint, and how they are shown."""

import math

import pytest

from appliance.config.units import UNITS, NotAQuantity, Share, show_bytes, show_duration, show_tokens


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
