"""Which engines are stopped so that another fits."""

import pytest

from appliance.control.eviction import CannotFit, Evict, Resident, Wait, plan, share


def engine(name, size, since=0.0, *, busy=False, pinned=False, leaving=False):
    return Resident(name, size, busy, pinned, leaving, since)


BUDGET = 1000  # 800 of it for weights


@pytest.mark.parametrize(
    "need, resident, decision",
    [
        pytest.param(800, [], Evict(()), id="an empty machine takes what just fits"),
        pytest.param(300, [engine("a", 500)], Evict(()), id="nothing is stopped where there is room"),
        pytest.param(400, [engine("a", 500)], Evict(("a",)), id="an idle engine makes room"),
        pytest.param(
            400, [engine("new", 400, since=9), engine("old", 400, since=1)], Evict(("old",)), id="oldest first"
        ),
        pytest.param(
            600,
            [engine("small", 100, since=1), engine("large", 500, since=2)],
            Evict(("large",)),
            id="one that turns out unneeded stays",
        ),
        pytest.param(
            800,
            [engine("a", 300, since=2), engine("b", 300, since=1)],
            Evict(("b", "a")),
            id="as many as it takes",
        ),
        pytest.param(400, [engine("a", 500, busy=True)], Wait(), id="a busy one is waited for"),
        pytest.param(400, [engine("a", 500, leaving=True)], Wait(), id="a leaving one is waited for"),
        pytest.param(
            600,
            [engine("busy", 300, busy=True), engine("idle", 300)],
            Wait(),
            id="nobody is stopped in vain",
        ),
        pytest.param(
            300,
            [engine("pinned", 300, since=0, pinned=True), engine("idle", 300, since=5)],
            Evict(("idle",)),
            id="pinned ones stay however old",
        ),
    ],
)
def test_the_plan(need, resident, decision):
    assert plan("big", need, resident, BUDGET) == decision


GIB = 1024**3


@pytest.mark.parametrize(
    "need, resident, words",
    [
        pytest.param(
            21 * GIB, [], ["big needs 21.0 GiB", "memory.budget 20.0 GiB leaves 16.0 GiB", "raise memory.budget"],
            id="larger than the budget",
        ),
        pytest.param(
            10 * GIB, [engine("p", 9 * GIB, pinned=True)], ["pinned models hold 9.0 GiB", "unpin a model or raise"],
            id="pinned models are in the way",
        ),
    ],
)  # fmt: skip
def test_what_can_never_fit_is_said_with_the_numbers(need, resident, words):
    decision = plan("big", need, resident, 20 * GIB)
    assert isinstance(decision, CannotFit)
    for word in words:
        assert word in decision.message


def test_what_is_left_is_shared_equally():
    assert share(1000, 400, 3) == 200
    assert share(1000, 1200, 3) == 0
    assert share(1000, 0, 0) == 1000
