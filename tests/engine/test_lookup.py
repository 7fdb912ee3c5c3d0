"""What a look-up finds: tokens that followed where the text's end stood before, the longest agreement first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engine.lookup import GRAM, Lookup, Memory

FOLLOWS: dict[str, tuple[list[int], int, tuple[int, ...]]] = {
    "nothing is there": ([], 4, ()),
    "too short to repeat": ([1, 2], 4, ()),
    "nothing stood before": ([1, 2, 3, 4, 5], 4, ()),
    "what followed the last time": ([1, 2, 3, 9, 8, 7, 1, 2, 3], 2, (9, 8)),
    "no more than was asked for": ([1, 2, 3, 9, 8, 7, 1, 2, 3], 1, (9,)),
    "the latest of equal places": ([1, 2, 3, 8, 0, 1, 2, 3, 9, 0, 1, 2, 3], 1, (9,)),
    "the longest agreement before the latest": ([5, 1, 2, 3, 8, 0, 1, 2, 3, 9, 5, 1, 2, 3], 1, (8,)),
    "a period goes on": ([1, 2, 3, 1, 2, 3], 7, (1, 2, 3, 1, 2, 3, 1)),
    "one token over and over": ([4, 4, 4, 4], 3, (4, 4, 4)),
    "two tokens are no gram": ([1, 2, 9, 9, 1, 2], 3, ()),
}


@pytest.mark.parametrize(("known", "depth", "expected"), FOLLOWS.values(), ids=FOLLOWS)
def test_a_text_is_followed_to_where_its_end_stood_before(
    known: list[int], depth: int, expected: tuple[int, ...]
) -> None:
    assert Lookup(known, 0).follow(depth) == expected


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 9))
def test_what_is_found_followed_the_same_tokens_and_growing_finds_what_reading_at_once_does(
    text: list[int], depth: int
) -> None:
    growing: list[int] = []
    lookup = Lookup(growing, 0)
    for token in text:
        growing.append(token)
        found = lookup.follow(depth)
        assert found == Lookup(list(growing), 0).follow(depth)
        assert len(found) <= depth
        if found:
            end = tuple(growing[-GRAM:])
            places = [n for n in range(GRAM, len(growing)) if tuple(growing[n - GRAM : n]) == end]
            assert any(growing[n] == found[0] for n in places)
        elif len(growing) >= GRAM:
            assert not any(growing[n - GRAM : n] == growing[-GRAM:] for n in range(GRAM, len(growing)))


FORETOLD: dict[str, tuple[list[int], tuple[int, ...]]] = {
    "before the first token": ([], (5, 6, 7)),
    "while the answer is as foretold": ([5, 6], (7, 8, 9)),
    "where the answer went another way": ([5, 4], ()),
    "where it comes back": ([5, 4, 4, 7, 8, 9], (10, 11)),
    "at its end": ([5, 6, 7, 8, 9, 10, 11], ()),
}


@pytest.mark.parametrize(("said", "expected"), FORETOLD.values(), ids=FORETOLD)
def test_an_answer_that_was_foretold_is_followed(said: list[int], expected: tuple[int, ...]) -> None:
    known = [1, 2, 3, *said]
    assert Lookup(known, 3, foretold=[5, 6, 7, 8, 9, 10, 11]).follow(3) == expected


def test_earlier_answers_are_remembered_up_to_a_bound() -> None:
    memory = Memory(10)
    memory.keep([1, 2, 3, 4])
    assert Lookup([1, 2, 3], 0, memory=memory).follow(2) == (4,)
    memory.keep([5, 6, 7, 8, 9, 5, 6, 7])
    assert Lookup([1, 2, 3], 0, memory=memory).follow(2) == (4,)
    memory.keep([2, 3, 1, 2, 0])
    assert Lookup([1, 2, 3], 0, memory=memory).follow(2) == ()
    assert Lookup([5, 6, 7], 0, memory=memory).follow(1) == (8,)


def test_the_texts_own_past_goes_before_that_of_others() -> None:
    memory = Memory(100)
    memory.keep([1, 2, 3, 9])
    assert Lookup([1, 2, 3, 4, 1, 2, 3], 0, memory=memory).follow(1) == (4,)
