"""Values of other tools as values of a deploy file."""

from typing import Any

import pytest

from appliance.convert import values as v
from appliance.convert.target import OMIT, Read


def named(value: object) -> str:
    """The same in every run: no addresses."""
    return getattr(value, "__name__", "nothing" if type(value) is object else repr(value))


@pytest.mark.parametrize(
    ("read", "given", "expected"),
    [
        (v.number, "0.7", 0.7),
        (v.number, "1.0", 1),
        (v.tokens, "32768", "32k"),
        (v.tokens, "1000", 1000),
        (v.tokens, "1024", 1024),
        (v.tokens_or_omit, "-1", OMIT),
        (v.at_most_tokens, "8192", [1, "8k"]),
        (v.seconds, "300", "5m"),
        (v.seconds, "0.5", "500ms"),
        (v.seconds_or_never, "0", "never"),
        (v.milliseconds, "500", "500ms"),
        (v.share, "0.75", "75%"),
        (v.share, "0.9", "90%"),
        (v.size("GiB"), "10", "10GiB"),
        (v.size("GiB"), "10.5", "10752MiB"),
        (v.size("GiB"), "0", OMIT),
        (v.size("MiB"), 512, "512MiB"),
        (v.byte_count, "8388608", "8MiB"),
        (v.byte_count, "4GB", "4GiB"),
        (v.byte_count, "1000000", "976.56KiB"),
        (v.per_minute, "60", "60/m"),
        (v.several, "http://a,http://b", ["http://a", "http://b"]),
        (v.json_object, '{"a": 1}', {"a": 1}),
        (v.tool_dialect, "auto", OMIT),
        (v.tool_dialect, "hermes", "hermes_json"),
        (v.kv_bits, "bf16", OMIT),
        (v.kv_bits, "q4_0", 4),
        (v.speculative, '{"method": "mtp", "num_speculative_tokens": 3}', {"kind": "mtp", "depth": 3}),
        (v.always(True), True, True),
        (v.always(True), False, OMIT),
    ],
    ids=named,
)
def test_a_value_is_read(read: Read, given: Any, expected: Any) -> None:
    assert read(given) == expected


@pytest.mark.parametrize(
    ("read", "given", "words"),
    [
        (v.number, "much", "not a number"),
        (v.number, "inf", "finite"),
        (v.whole, "1.5", "whole"),
        (v.share, "90", "between 0 and 1"),
        (v.json_object, "[1]", "JSON object"),
        (v.json_object, "{", "JSON object"),
        (v.tool_dialect, "martian", "family decides"),
        (v.speculative, '{"method": "dflash"}', "dflash"),
        (v.kv_bits, "int3", "type of cache"),
        (v.text, " ", "empty"),
    ],
    ids=named,
)
def test_a_value_that_cannot_be_read_says_why(read: Read, given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(given)
