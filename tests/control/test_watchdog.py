"""When an engine counts as hung."""

import pytest

from appliance.control.watchdog import Bound, Progress, Signs

BOUND = Bound(floor=40)  # a look every 10 s


def looks(*seen, start=0, stall_target=0.5):
    """The number of the look after which it is hung; each is (steps or None, rows) or with the seconds it took."""
    progress = Progress(steps=start)
    for at, (steps, running, *passed) in enumerate(seen, 1):
        progress = progress.look(steps, running, *(passed or [10]), BOUND.interval)
        if progress.hung(BOUND, stall_target):
            return at
    return None


@pytest.mark.parametrize(
    "seen, more, hung",
    [
        pytest.param([(5, 1)] * 9, {"start": 5}, 4, id="rows run and nothing happens"),
        pytest.param([(None, 0)] * 9, {"start": 5}, 4, id="no answer at all"),
        pytest.param([(5, 0)] * 99, {"start": 5}, None, id="nothing to do"),
        pytest.param([(n, 1) for n in range(99)], {}, None, id="one step each time"),
        pytest.param([(0, 1)] * 20, {}, 16, id="the first step may take longer"),
        pytest.param([*[(5, 1)] * 3, (6, 1), *[(6, 1)] * 20], {"start": 5}, 20, id="slow steps make it patient"),
        pytest.param([*[(5, 1)] * 3, (6, 1), *[(6, 1)] * 3], {"start": 5}, None, id="slow is not hung"),
        pytest.param([(5, 1)] * 99, {"start": 5, "stall_target": 10}, 20, id="chunks that may be long"),
        pytest.param([(5, 1, 3600)], {"start": 5}, None, id="the machine slept"),
    ],
)
def test_when_it_is_taken_for_hung(seen, more, hung):
    assert looks(*seen, **more) == hung


@pytest.mark.parametrize(
    "seen, hung",
    [
        pytest.param([(3, 70)] * 9, 5, id="it is stopped"),
        pytest.param([(n, 70) for n in range(99)], None, id="it waits for its disk, and answers"),
        pytest.param([(3, n) for n in range(99)], None, id="it works, and lets nobody answer"),
        pytest.param([(3, 70), *[(4, 70)] * 9], 6, id="it is stopped later"),
        pytest.param([*[(3, 70)] * 4, *[(4, 70)] * 4, *[(5, 70)] * 4], None, id="it goes on in time each time"),
        pytest.param([(3, None)] * 40, 17, id="only silence tells"),
        pytest.param([(3, 70), (3, 70, 3600)], None, id="the machine slept"),
    ],
)
def test_when_an_engine_that_loads_is_taken_for_hung(seen, hung):
    signs, found = Signs(), None
    for at, (heard, worked, *passed) in enumerate(seen, 1):
        signs = signs.look(heard, worked, *(passed or [10]), BOUND.interval)
        found = found or (at if signs.hung(BOUND) else None)
    assert found == hung
