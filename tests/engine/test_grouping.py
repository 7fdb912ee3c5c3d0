"""Rows of like length decode together, and change groups only where that is worth the move."""

import random

import pytest

from appliance.engine.grouping import Costs, Experts, Groups, alike, regrouped

LIGHT = Costs(pass_bytes=1000, token_bytes=1)
"""A pass more costs what 500 tokens of padding do."""


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        pytest.param([], [], id="no rows"),
        pytest.param([7], [[7]], id="one row"),
        pytest.param([20, 600], [[600], [20]], id="one short row beside a long one"),
        pytest.param([20, 500], [[500, 20]], id="padding that costs less than a pass"),
        pytest.param([60, 60, 300, 60], [[300], [60, 60, 60]], id="a little padding in many rows"),
        pytest.param([60, 3000, 70, 2900, 65], [[3000, 2900], [70, 65, 60]], id="two lengths"),
        pytest.param([100, 900, 1700, 2500], [[2500], [1700], [900], [100]], id="each its own"),
        pytest.param([100, 300, 500, 700], [[700, 500], [300, 100]], id="neighbours"),
    ],
)
def test_rows_are_parted_where_padding_outweighs_a_pass(lengths: list[int], groups: list[list[int]]) -> None:
    found = alike(dict(enumerate(lengths)), LIGHT)
    assert [[lengths[id] for id in group] for group in found] == groups


@pytest.mark.parametrize(
    ("before", "lengths", "after"),
    [
        pytest.param({}, {1: 100, 2: 100}, {1: 0, 2: 0}, id="together from the first step on"),
        pytest.param({1: 0, 2: 0}, {1: 100, 2: 120, 3: 110}, {1: 0, 2: 0, 3: 0}, id="one of like length joins"),
        pytest.param({1: 0, 2: 0}, {1: 100, 2: 120, 3: 3000}, {1: 0, 2: 0, 3: 1}, id="a long one stays apart"),
        pytest.param({1: 0, 2: 1}, {1: 100, 2: 3000, 3: 2900}, {1: 0, 2: 1, 3: 1}, id="the next long one joins it"),
        pytest.param({1: 0, 2: 0}, {1: 100, 2: 650}, {1: 0, 2: 0}, id="a gain too small for a move"),
        pytest.param({1: 0, 2: 1}, {1: 100, 2: 550}, {1: 0, 2: 1}, id="or for coming back"),
        pytest.param({1: 0, 2: 0}, {1: 100, 2: 2000}, {1: 1, 2: 0}, id="a gain that is worth it"),
        pytest.param({1: 0, 2: 0, 3: 1}, {1: 100, 2: 110}, {1: 0, 2: 0}, id="the long one left"),
        pytest.param({1: 0, 2: 1, 3: 1}, {1: 100, 2: 110}, {1: 1, 2: 1}, id="two that are left come together"),
        pytest.param({1: 4, 2: 7}, {1: 100, 2: 3000}, {1: 4, 2: 7}, id="numbers stay"),
    ],
)
def test_rows_change_groups_where_that_is_worth_it(
    before: dict[int, int], lengths: dict[int, int], after: dict[int, int]
) -> None:
    assert regrouped(lengths, before, LIGHT) == after


@pytest.mark.parametrize(("rows", "read"), [(0, 0), (1, 100), (2, 190), (4, 344), (16, 815), (1000, 1000)], ids=str)
def test_rows_read_more_experts_the_more_they_are(rows: int, read: int) -> None:
    assert Experts(1000, 0.1).read(rows) == read


@pytest.mark.parametrize(
    ("experts", "groups"),
    [
        pytest.param(Experts(), [[500, 20]], id="no experts"),
        pytest.param(Experts(9000, 1.0), [[500, 20]], id="all are read by each"),
        pytest.param(Experts(9000, 0.01), [[500, 20]], id="few are read twice"),
    ],
)
def test_weights_that_rows_choose_count_where_they_are_read_twice(experts: Experts, groups: list[list[int]]) -> None:
    lengths = {0: 20, 1: 500}
    assert [[lengths[id] for id in group] for group in alike(lengths, Costs(1000, 1, experts))] == groups


def test_a_mixture_of_experts_parts_rows_that_a_dense_model_of_its_size_does_not() -> None:
    lengths = {1: 20, 2: 600}
    assert alike(lengths, Costs(10_000, 1)) == [[2, 1]]
    assert alike(lengths, Costs(1000, 1, Experts(9000, 0.01))) == [[2], [1]]


def test_rows_stay_where_they_are_while_none_comes_or_goes() -> None:
    groups = Groups()
    groups.costs = LIGHT
    first = dict(groups.place({"": {1: 100, 2: 110}}))
    assert groups.place({"": {1: 100, 2: 9000}}) == first
    assert groups.place({"": {1: 100, 2: 9001, 3: 100}}) != first | {3: 0}


def test_room_is_that_of_the_groups() -> None:
    groups = Groups()
    groups.costs = LIGHT
    assert groups.room({"": {1: 800, 2: 60}}) == 900 + 92
    assert groups.room({"": {1: 800, 2: 60}, "adapter": {3: 60, 4: 60}}) == 900 + 92 + 2 * 92


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_and_goes_groups_cost_little_more_than_the_best(seed: int) -> None:
    drawn, groups, lengths = random.Random(seed), Groups(), dict[int, int]()
    groups.costs = LIGHT
    for id in range(60):
        lengths[id] = drawn.choice((drawn.randrange(30, 200), drawn.randrange(30, 4000)))
        if len(lengths) > 8:
            del lengths[drawn.choice(list(lengths))]
        parted: dict[int, list[int]] = {}
        for row, number in groups.place({"": lengths}).items():
            parted.setdefault(number, []).append(lengths[row])
        best = sum(LIGHT.of([lengths[row] for row in group]) for group in alike(lengths, LIGHT))
        assert sum(map(LIGHT.of, parted.values())) <= 1.25 * best
