"""Whose sequence begins next, when more is asked for than there is."""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from appliance.engine.fairness import Shares
from appliance.vocab.event import Started, TextDelta
from appliance.vocab.spec import WISHES, urgency
from tests.engine.driving import Drive

LOW, NORMAL, HIGH = (rank * 2 * WISHES for rank in (-1, 0, 1))


@dataclass(frozen=True)
class Wait:
    """A sequence that waits, as far as its turn depends on it."""

    tenant: str
    order: int
    priority: int = NORMAL
    limit: int = 1000
    known: tuple[int, ...] = ()

    @property
    def id(self) -> int:
        return self.order

    @property
    def urgency(self) -> int:
        return urgency(self.priority)


def begun(shares: Shares, waiting: list[Wait], tokens: int = 10) -> str:
    """The tenants in the order of their turns, in each of which so many tokens are read."""
    turns = []
    for one in shares.line(sorted(waiting, key=lambda w: (-w.priority, w.order))):
        shares.begin(one, tokens)
        shares.end(one)
        turns.append(one.tenant)
    return "".join(turns)


LINES = {
    "one tenant keeps its order": ([Wait("a", 1), Wait("a", 2), Wait("a", 3)], "aaa"),
    "who asks more goes no oftener": ([*(Wait("a", n) for n in range(4)), Wait("b", 4), Wait("b", 5)], "ababaa"),
    "a higher class goes first": ([Wait("a", 1), Wait("b", 2, HIGH), Wait("b", 3, HIGH)], "bba"),
    "a lower class goes last": ([Wait("a", 1, LOW), Wait("b", 2), Wait("b", 3)], "bba"),
    "a wish is for one's own": ([Wait("a", 1, WISHES - 1), Wait("a", 2, WISHES - 1), Wait("b", 3)], "aba"),
    "nobody waits": ([], ""),
}


@pytest.mark.parametrize(("waiting", "turns"), LINES.values(), ids=LINES)
def test_turns_go_to_who_was_served_least(waiting: list[Wait], turns: str) -> None:
    assert begun(Shares(), waiting) == turns


@pytest.mark.parametrize("wish", [1 - WISHES, -1, 0, 1, WISHES - 1])
@pytest.mark.parametrize("rank", [-6, -5, -1, 0, 1])
def test_no_wish_leads_into_another_class(rank: int, wish: int) -> None:
    assert urgency(rank * 2 * WISHES + wish) == rank


def test_who_was_away_has_saved_nothing_up() -> None:
    shares = Shares()
    begun(shares, [Wait("a", n) for n in range(100)])
    there = [Wait("a", n) for n in range(100, 104)]
    newcomer = [Wait("b", n) for n in range(104, 108)]
    shares.arrive(newcomer[0], there)
    assert begun(shares, [*there, *newcomer]) == "abababab"


def test_nor_has_who_comes_back_when_nobody_waits() -> None:
    shares = Shares()
    shares.arrive(Wait("b", 0), [])
    begun(shares, [Wait("b", 0)])
    begun(shares, [Wait("a", n) for n in range(100)])
    shares.arrive(Wait("b", 100), [])
    assert begun(shares, [Wait("b", n) for n in range(100, 104)] + [Wait("a", 104)], 11) == "babbb"


def test_what_is_taken_in_one_class_is_not_held_against_another() -> None:
    shares = Shares()
    begun(shares, [Wait("a", n, LOW) for n in range(100)])
    assert begun(shares, [Wait("a", 200), Wait("b", 201)]) == "ab"


def test_what_an_answer_will_take_is_charged_when_it_begins_and_settled_when_it_ends() -> None:
    shares = Shares()
    first, second = Wait("a", 1), Wait("a", 2)
    shares.begin(first, 5)
    shares.wrote(first, 40)
    shares.end(first)
    begun(shares, [Wait("b", 3)], 45)
    shares.begin(second, 5)
    assert begun(shares, [Wait("a", 4), Wait("b", 5), Wait("b", 6)], 30) == "bba"
    shares.wrote(second, 10)
    shares.end(second)
    assert begun(shares, [Wait("a", 7), Wait("b", 8)], 0) == "ab"


def served(drive: Drive, tenants: dict[int, str], prompts: dict[int, int]) -> Counter[str]:
    """Tokens read and written so far, by tenant; a character is a token."""
    tokens: Counter[str] = Counter()
    for part in (part for frame in drive.emitted for part in frame.sequences):
        for event in part.events:
            if isinstance(event, Started):
                tokens[tenants[part.id]] += prompts[part.id]
            elif isinstance(event, TextDelta):
                tokens[tenants[part.id]] += len(event.text)
    return tokens


def test_keys_that_ask_for_unlike_amounts_get_equal_shares(tmp_path) -> None:
    drive, draw = Drive(tmp_path, rows=4, tokens=100_000, text="x", endless=True), random.Random(7)
    tenants: dict[int, str] = {}
    prompts: dict[int, int] = {}
    arrivals = []
    for number in range(16):
        # The first sends many short requests with long prompts at once, the last few long ones.
        for _ in range(120 - 6 * number):
            id = len(tenants) + 1
            tenants[id], prompts[id] = f"key {number}", draw.randint(2, 40 - 2 * number)
            arrivals.append(drive.arrival(id, "a" * prompts[id], max_tokens=4 + 2 * number, tenant=tenants[id]))
    drive.turn(*arrivals)
    while (tokens := served(drive, tenants, prompts)).total() < 16 * 500:
        for _ in range(200):
            drive.turn()
    fair = tokens.total() / 16
    assert {name: count for name, count in tokens.items() if abs(count - fair) > 0.1 * fair} == {}
    assert len(tokens) == 16


def test_a_key_that_asks_for_more_than_all_others_delays_a_newcomer_by_one_answer(tmp_path) -> None:
    drive = Drive(tmp_path, rows=1, text="x", endless=True)
    drive.turn(*(drive.arrival(id, "ab", max_tokens=20, tenant="greedy") for id in range(1, 50)))
    for _ in range(5):
        drive.turn()
    drive.turn(drive.arrival(50, "ab", max_tokens=20, tenant="modest"))
    for _ in range(60):
        drive.turn()
    assert drive.started()[:2] == [1, 50]
