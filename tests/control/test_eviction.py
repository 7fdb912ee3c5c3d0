"""Which engines are stopped so that another fits."""

import pytest

from appliance.control.eviction import CannotFit, Evict, Policy, Resident, Wait, plan, share, shrink


def engine(name, size, since=0.0, *, busy=False, pinned=False, leaving=False):
    return Resident(name, size, busy, pinned, leaving, since, model=name)


POLICY = Policy(1000, 200)


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
            400,
            [engine("ending", 500, leaving=True), engine("idle", 300)],
            Wait(),
            id="no second one is stopped where one that is ending makes the room",
        ),
        pytest.param(
            500,
            [engine("slow", 200, leaving=True, busy=True), engine("idle", 300)],
            Evict(("idle",)),
            id="one that leaves after its requests is not waited for where another is idle",
        ),
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
    assert plan("big", need, resident, POLICY) == decision


@pytest.mark.parametrize(
    "policy, resident, more, decision",
    [
        pytest.param(
            Policy(1000, 0, max_loaded=2), [engine("a", 1), engine("b", 1, 1)], {}, Evict(("a",)), id="places"
        ),
        pytest.param(Policy(1000, 0, max_loaded=2), [engine("a", 1)], {}, Evict(()), id="a place is free"),
        pytest.param(
            Policy(1000, 0, max_loaded=1), [engine("a", 1, busy=True)], {}, Wait(), id="the place is in use"
        ),
        pytest.param(Policy(1000), [engine("a", 1), engine("b", 1)], {"rivals": {"b"}}, Evict(("b",)), id="a rival"),
        pytest.param(Policy(1000), [engine("b", 1, busy=True)], {"rivals": {"b"}}, Wait(), id="a rival that is busy"),
        pytest.param(
            Policy(1000, keep_free=100), [engine("a", 400)], {"capacity": 700}, Evict(("a",)), id="others need memory"
        ),
        pytest.param(Policy(1000), [engine("a", 400)], {"capacity": 700}, Evict(()), id="nothing is kept free"),
        pytest.param(
            Policy(1000),
            [Resident("a", 900, False, False, False, 0.0, protected=True)],
            {},
            Wait(),
            id="it just came",
        ),
    ],
)
def test_other_limits_than_the_budget(policy, resident, more, decision):
    assert plan("big", 300, resident, policy, **more) == decision


@pytest.mark.parametrize(
    "policy, more, words, passing",
    [
        pytest.param(Policy(1000, max_loaded=1), {}, "memory.max_loaded is 1", False, id="all places are pinned"),
        pytest.param(Policy(1000), {"rivals": {"p"}}, "memory.exclusive", False, id="a pinned rival"),
        pytest.param(Policy(1000, keep_free=100), {"capacity": 450}, "memory.keep_free", True, id="others take it"),
    ],
)
def test_why_there_is_no_way(policy, more, words, passing):
    decision = plan("big", 300, [engine("p", 100, pinned=True)], policy, **more)
    assert isinstance(decision, CannotFit)
    assert words in decision.message
    assert decision.passing is passing


def test_what_has_become_too_much_is_given_up_oldest_first():
    both = [engine("old", 300, 1), engine("new", 300, 2)]
    assert shrink(both, Policy(1000)) == ()
    assert shrink(both, Policy(500)) == ("old",)
    assert shrink(both, Policy(1000, max_loaded=1)) == ("old",)
    assert shrink(both, Policy(1000, keep_free=100), capacity=500) == ("old",)
    ending = engine("ending", 300, leaving=True)
    assert shrink([*both, ending], Policy(700)) == (), "what is ending makes the room"


GIB = 1024**3


@pytest.mark.parametrize(
    "need, resident, words",
    [
        pytest.param(
            21 * GIB, [], ["big needs 21.0 GiB", "memory.budget 20.0 GiB leaves 16.0 GiB", "raise memory.budget"],
            id="larger than the budget",
        ),
        pytest.param(
            10 * GIB, [engine("p", 9 * GIB, pinned=True)], ["pinned models hold 9.0 GiB", "unpin p or raise"],
            id="pinned models are in the way",
        ),
    ],
)  # fmt: skip
def test_what_can_never_fit_is_said_with_the_numbers(need, resident, words):
    decision = plan("big", need, resident, Policy(20 * GIB, 4 * GIB))
    assert isinstance(decision, CannotFit)
    for word in words:
        assert word in decision.message


def test_the_spare_engine_takes_its_part_of_the_budget():
    policy = Policy(20 * GIB, 4 * GIB, spare=GIB)
    assert plan("big", 15 * GIB, [], policy) == Evict(())
    decision = plan("big", 16 * GIB, [], policy)
    assert isinstance(decision, CannotFit)
    assert "leaves 15.0 GiB for models" in decision.message
    assert "1.0 GiB for the spare engine" in decision.message


def test_what_is_left_is_shared_equally():
    assert share(1000, 400, 3) == 200
    assert share(1000, 1200, 3) == 0
    assert share(1000, 0, 0) == 1000
