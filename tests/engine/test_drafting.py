"""How far a sequence is guessed ahead, by what became of the guesses before."""

import pytest

from appliance.engine.drafting import OPEN, START, Drafting, asks_the_backend

MOST = 16


def drafting(most: int = MOST) -> Drafting:
    return Drafting(most, asks_the_backend)


OUTCOMES: dict[str, tuple[list[tuple[int, int]], int]] = {
    "at first": ([], START),
    "all right: twice as far": ([(4, 4)], 8),
    "all right again": ([(4, 4), (8, 8)], 16),
    "never further than the most": ([(4, 4), (8, 8), (16, 16)], MOST),
    "partly right: as far as that and one": ([(4, 4), (8, 5)], 6),
    "a short guess that was right cuts nothing": ([(4, 4), (2, 2)], 8),
    "one of four": ([(4, 1)], 2),
}


@pytest.mark.parametrize(("outcomes", "depth"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_depth_follows_what_was_right(outcomes: list[tuple[int, int]], depth: int) -> None:
    made, known = drafting(), [1] * 10
    for drafted, accepted in outcomes:
        known += [1] * (accepted + 1)
        made.learn(len(known), drafted, accepted)
    assert made.guess(known, 100) == (OPEN,) * depth


def test_a_small_most_is_kept_from_the_start() -> None:
    assert len(drafting(2).guess([1], 100)) == 2


def test_no_more_is_guessed_than_there_is_room() -> None:
    assert [len(drafting().guess([1], room)) for room in (-1, 0, 1, 3)] == [0, 0, 1, 3]


def test_after_wrong_guesses_it_is_left_alone_each_time_longer_until_one_is_right() -> None:
    made, known, waits = drafting(), [1] * 10, []
    for _ in range(4):
        known.append(1)
        made.learn(len(known), 4, 0)
        start = len(known)
        while not made.guess(known, 100):
            known.append(1)
        waits.append(len(known) - start)
    assert waits == [START, 2 * START, 4 * START, 8 * START]
    known += [1, 1]
    made.learn(len(known), 4, 1)
    assert made.guess(known, 100)


def test_a_guess_that_was_never_tried_and_would_have_been_wrong_counts() -> None:
    made = Drafting(MOST, lambda depth: (7,) * depth)
    known = [1, 2]
    assert made.guess(known, 100)
    known.append(7)
    assert made.guess(known, 100), "it would have been right"
    known.append(8)
    assert not made.guess(known, 100)
    assert made.guess([*known, *[1] * START], 100)
