"""Which word was meant."""

import pytest

from appliance.config.suggest import did_you_mean, distance, nearest

KNOWN = ["idle_unload", "load", "pin", "context", "concurrency", "cache"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("idel_unload", "idle_unload"), ("idleunload", "idle_unload"), ("Load", "load"), ("pni", "pin"),
        ("pins", "pin"), ("contxt", "context"), ("concurency", "concurrency"), ("chace", "cache"),
        ("zebra", None), ("", None), ("p", None),
    ],
)  # fmt: skip
def test_the_nearest_word_is_suggested_where_one_is_near(word: str, meant: str | None) -> None:
    assert nearest(word, KNOWN) == meant
    assert did_you_mean(word, KNOWN) == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("", "", 0), ("a", "", 1), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "abd", 1), ("kitten", "sitting", 3)],
)
def test_a_distance_counts_edits_and_swapped_neighbours(a: str, b: str, edits: int) -> None:
    assert distance(a, b, 9) == distance(b, a, 9) == edits


def test_a_distance_over_the_limit_is_not_computed() -> None:
    assert distance("kitten", "sitting", 1) == 2
    assert distance("a" * 10_000, "b" * 20_000, 3) == 4
