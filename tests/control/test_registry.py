"""What the registry decides, event by event; the clock is a number."""

import math
from dataclasses import replace
from types import MappingProxyType

import pytest

from appliance.config.deployment import RetryLoad
from appliance.control import overrides, registry
from appliance.control.eviction import Policy
from appliance.control.residency import (
    EngineState,
    Fetch,
    Grant,
    Registry,
    Reject,
    Share,
    Spawn,
    Stop,
    Terms,
    Waiter,
    WakeAt,
    Want,
)
from appliance.control.speech import Speech
from appliance.errors import DiedLoading, LoadFailed, SourceError, Unavailable, UnknownModel

BUDGET = 1000
NOTHING = MappingProxyType({})


class Machine:
    """Feeds events to a registry and keeps what it asked for."""

    def __init__(self, *wants, **terms):
        self.state = Registry()
        self.now = 0.0
        self.effects = []
        self.apply(*wants, **terms)

    def __call__(self, event, *what, after=0.0):
        self.now += after
        self.state, self.effects = event(self.state, *what, now=self.now)
        return [effect for effect in self.effects if not isinstance(effect, WakeAt | Share)]

    def apply(self, *wants, names=None, budget=BUDGET, policy=NOTHING, **terms):
        by_fingerprint = {want.fingerprint: want for want in wants}
        served = names or {w.model: w.fingerprint for w in wants}
        return self(registry.on_apply, by_fingerprint, served, Terms(Policy(budget, budget // 5, **policy), **terms))

    def loaded(self, fingerprint, waiter=1):
        """Bring an engine up for a waiter; its process number."""
        self(registry.on_acquire, Waiter(waiter, self.state.engines[fingerprint].want.model))
        number = self.state.engines[fingerprint].number
        self(registry.on_ready, number)
        return number

    def alarm(self):
        return next((effect.at for effect in self.effects if isinstance(effect, WakeAt)), None)

    def engine(self, fingerprint):
        return self.state.engines[fingerprint]


def want(name="m", size=100, **more):
    return Want(fingerprint=f"f-{name}", model=name, bytes=size, **more)


def test_the_first_request_loads_and_is_served_when_ready():
    machine = Machine(want())
    assert machine(registry.on_acquire, Waiter(1, "m")) == [Spawn("f-m", 1)]
    assert machine(registry.on_ready, 1) == [Grant(1, 1)]
    assert machine(registry.on_acquire, Waiter(2, "m")) == [Grant(2, 1)]


def test_concurrent_first_requests_share_one_load():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    assert machine(registry.on_acquire, Waiter(2, "m")) == []
    assert machine(registry.on_ready, 1) == [Grant(1, 1), Grant(2, 1)]


def test_two_models_of_one_fingerprint_share_an_engine():
    machine = Machine(want(), names={"m": "f-m", "twin": "f-m"})
    machine.loaded("f-m")
    assert machine(registry.on_acquire, Waiter(2, "twin")) == [Grant(2, 1)]


def test_a_waiter_that_leaves_does_not_cancel_the_load():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    assert machine(registry.on_leave, 1) == []
    assert machine(registry.on_ready, 1) == []
    assert machine(registry.on_acquire, Waiter(2, "m")) == [Grant(2, 1)]


def test_a_model_the_deployment_does_not_have_is_refused():
    [reject] = Machine(want())(registry.on_acquire, Waiter(1, "other"))
    assert isinstance(reject.error, UnknownModel)


def test_a_startup_model_is_loaded_without_a_request():
    machine = Machine()
    assert machine.apply(want(startup=True)) == [Spawn("f-m", 1)]


def test_an_unused_engine_is_unloaded_when_asked_and_comes_back_with_a_request():
    machine = Machine(want())
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    assert machine(registry.on_unload, "f-m", False) == [Stop(1)]
    assert machine(registry.on_unload, "f-m", False) == []
    assert machine(registry.on_acquire, Waiter(2, "m")) == []
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-m", 2)]


def test_an_engine_in_use_is_not_unloaded():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    assert machine(registry.on_unload, "f-m", False) == []
    machine(registry.on_ready, 1)
    assert machine(registry.on_unload, "f-m", False) == []


# ---- idle
def test_the_idle_clock_runs_from_the_end_of_the_last_lease():
    machine = Machine(want(idle_unload=10))
    machine.loaded("f-m")
    machine(registry.on_acquire, Waiter(2, "m"))
    machine(registry.on_release, 1, True, after=100)
    assert machine.alarm() is None
    machine(registry.on_release, 2, True, after=100)
    assert machine.alarm() == 210
    assert machine(registry.on_tick, after=9.9) == []
    assert machine(registry.on_tick, after=0.1) == [Stop(1)]
    assert machine.engine("f-m").state is EngineState.DRAINING


@pytest.mark.parametrize("more", [{"pinned": True, "idle_unload": 10}, {"idle_unload": math.inf}], ids=str)
def test_pinned_and_never_are_not_unloaded(more):
    machine = Machine(want(**more))
    machine.loaded("f-m")
    assert machine(registry.on_release, 1, True) == []
    assert machine.alarm() is None
    assert machine(registry.on_tick, after=1e9) == []


def test_a_request_while_the_engine_is_stopping_loads_it_again():
    machine = Machine(want(idle_unload=10))
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    machine(registry.on_tick, after=10)
    assert machine(registry.on_acquire, Waiter(2, "m")) == []
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-m", 2)]


# ---- failures
def test_a_permanent_failure_is_told_until_the_fingerprint_changes():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    [reject] = machine(registry.on_gone, 1, LoadFailed("no such layer", permanent=True), False)
    assert (reject.waiter, reject.error.permanent, reject.error.retry_after) == (1, True, None)
    [again] = machine(registry.on_acquire, Waiter(2, "m"), after=1e6)
    assert again.error.message == "no such layer"
    machine.apply(want())
    assert isinstance(machine(registry.on_acquire, Waiter(3, "m"))[0], Reject)
    machine.apply(Want("f-2", "m", 100))
    assert machine(registry.on_acquire, Waiter(4, "m")) == [Spawn("f-2", 2)]


def test_a_transient_failure_is_retried_once_then_told_then_probed():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    assert machine(registry.on_gone, 1, LoadFailed("killed"), False) == [Spawn("f-m", 2)]
    [reject] = machine(registry.on_gone, 2, LoadFailed("killed"), False)
    assert (reject.error.permanent, reject.error.retry_after) == (False, 5)
    [early] = machine(registry.on_acquire, Waiter(2, "m"), after=2)
    assert early.error.retry_after == 3
    assert machine(registry.on_acquire, Waiter(3, "m"), after=3) == [Spawn("f-m", 3)]
    [later] = machine(registry.on_gone, 3, LoadFailed("killed"), False)
    assert later.error.retry_after == 10
    machine(registry.on_acquire, Waiter(4, "m"), after=10)
    assert machine(registry.on_ready, 4) == [Grant(4, 4)]
    assert machine.engine("f-m").failure is None


@pytest.mark.parametrize(
    "error, who, waits",
    [
        pytest.param(DiedLoading("killed"), {}, True, id="its engine was killed"),
        pytest.param(DiedLoading("killed"), {"hasty": True}, False, id="its engine was killed, another model can"),
        pytest.param(LoadFailed("no memory"), {}, False, id="its engine said why"),
        pytest.param(LoadFailed("no memory"), {"resumed": True}, True, id="its engine said why, and it had begun"),
    ],
)
def test_who_comes_in_the_pause_of_a_load_that_failed_waits_for_the_next_one_or_is_told(error, who, waits):
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m", resumed=True))
    machine(registry.on_gone, 1, error, False)
    assert machine(registry.on_gone, 2, error, False) == []
    rejects = machine(registry.on_acquire, Waiter(2, "m", **who), after=2)
    assert [reject.error.retry_after for reject in rejects] == ([] if waits else [3])
    assert machine.alarm() == 5, "nobody needs to come for the next load"
    assert machine(registry.on_tick, after=3) == [Spawn("f-m", 3)]
    assert machine(registry.on_ready, 3) == [Grant(1, 3), *([Grant(2, 3)] if waits else [])]


def test_what_failed_for_good_is_tried_again_when_somebody_asks_for_it():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    machine(registry.on_gone, 1, LoadFailed("no such layer", permanent=True), False)
    assert machine(registry.on_forgive) == []
    assert machine(registry.on_acquire, Waiter(2, "m")) == [Spawn("f-m", 2)]


def test_a_startup_model_is_probed_by_the_clock():
    machine = Machine()
    machine.apply(want(startup=True))
    machine(registry.on_gone, 1, LoadFailed("killed"), False)
    machine(registry.on_gone, 2, LoadFailed("killed"), False)
    assert machine.alarm() == 5
    assert machine(registry.on_tick, after=5) == [Spawn("f-m", 3)]


def test_an_engine_that_dies_is_not_granted_any_more_and_comes_back_on_request():
    machine = Machine(want())
    machine.loaded("f-m")
    machine(registry.on_lost, 1)
    assert machine(registry.on_acquire, Waiter(2, "m")) == []
    assert machine(registry.on_release, 1, True) == []
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-m", 2)]
    assert machine(registry.on_ready, 2) == [Grant(2, 2)]


def test_news_of_an_earlier_process_is_not_believed():
    machine = Machine(want())
    machine.loaded("f-m")
    machine(registry.on_lost, 1)
    machine(registry.on_acquire, Waiter(2, "m"))
    machine(registry.on_gone, 1, None, False)
    assert machine(registry.on_ready, 1) == []
    assert machine(registry.on_gone, 1, LoadFailed("late"), False) == []


# ---- memory
def test_an_idle_engine_is_evicted_and_the_load_waits_until_it_is_gone():
    machine = Machine(want("a", 500), want("b", 500))
    machine.loaded("f-a")
    machine(registry.on_release, 1, True)
    assert machine(registry.on_acquire, Waiter(2, "b")) == [Stop(1)]
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-b", 2)]


def test_a_load_waits_for_a_busy_engine_and_evicts_it_when_it_is_done():
    machine = Machine(want("a", 500), want("b", 500))
    machine.loaded("f-a")
    assert machine(registry.on_acquire, Waiter(2, "b")) == []
    assert machine(registry.on_release, 1, True) == [Stop(1)]


def test_a_small_model_does_not_overtake_a_large_one_that_waits_for_memory():
    machine = Machine(want("a", 500), want("big", 500), want("small", 100))
    machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "big"))
    assert machine(registry.on_acquire, Waiter(3, "small")) == []
    machine(registry.on_release, 1, True)
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-big", 2), Spawn("f-small", 3)]


def test_what_cannot_fit_is_refused_at_once_until_the_memory_changes():
    machine = Machine(want("big", 900))
    [reject] = machine(registry.on_acquire, Waiter(1, "big"))
    assert isinstance(reject.error, Unavailable)
    machine.apply(want("big", 900), budget=2000)
    assert machine(registry.on_acquire, Waiter(2, "big")) == [Spawn("f-big", 1)]


def test_the_share_of_free_memory_follows_the_engines_in_memory():
    def shares(machine):
        return [effect.bytes for effect in machine.effects if isinstance(effect, Share)]

    machine = Machine(want("a", 200), want("b", 300))
    machine(registry.on_acquire, Waiter(1, "a"))
    assert shares(machine) == [800]
    machine(registry.on_acquire, Waiter(2, "b"))
    assert shares(machine) == [250]
    machine(registry.on_ready, 1)
    assert shares(machine) == []
    machine(registry.on_aside, 100)
    assert shares(machine) == [200]
    machine(registry.on_gone, 1, None, False)
    assert shares(machine) == [600]


def test_a_smaller_budget_gives_up_idle_engines():
    machine = Machine(want("a", 300), want("b", 300))
    machine.loaded("f-a")
    machine.loaded("f-b", waiter=2)
    machine(registry.on_release, 1, True)
    assert machine.apply(want("a", 300), want("b", 300), budget=500) == [Stop(1)]
    assert machine.engine("f-b").state is EngineState.READY


# ---- downloads
def test_missing_files_are_fetched_before_the_load():
    machine = Machine(want(present=False))
    assert machine(registry.on_acquire, Waiter(1, "m")) == [Fetch("f-m")]
    assert machine(registry.on_acquire, Waiter(2, "m")) == []
    assert machine(registry.on_fetched, "f-m", None) == [Spawn("f-m", 1)]


def test_a_failed_download_is_told_like_a_failed_load():
    machine = Machine(want(present=False))
    machine(registry.on_acquire, Waiter(1, "m"))
    [reject] = machine(registry.on_fetched, "f-m", SourceError("no such repository", permanent=True))
    assert isinstance(reject.error, SourceError)


def test_waiters_follow_a_model_whose_fingerprint_changes_with_its_files():
    machine = Machine(want(present=False))
    machine(registry.on_acquire, Waiter(1, "m"))
    machine(registry.on_acquire, Waiter(2, "m"))
    assert machine.apply(Want("f-2", "m", 100)) == [Spawn("f-2", 1)]
    assert machine(registry.on_fetched, "f-m", None) == []
    assert machine(registry.on_ready, 1) == [Grant(1, 1), Grant(2, 1)]


# ---- other deployments
def test_an_equal_deployment_changes_nothing():
    machine = Machine(want())
    machine.loaded("f-m")
    before = machine.state
    assert machine.apply(want()) == []
    assert machine.state == before


def test_a_removed_model_finishes_its_leases_then_stops():
    machine = Machine(want("a"), want("b"))
    machine.loaded("f-a")
    assert machine.apply(want("b")) == []
    assert machine.engine("f-a").state is EngineState.DRAINING
    [reject] = machine(registry.on_acquire, Waiter(2, "a"))
    assert isinstance(reject.error, UnknownModel)
    assert machine(registry.on_release, 1, True) == [Stop(1)]
    machine(registry.on_gone, 1, None, False)
    assert "f-a" not in machine.state.engines


def test_those_waiting_for_a_removed_model_are_told_and_its_load_ends():
    machine = Machine(want("a"), want("b"))
    machine(registry.on_acquire, Waiter(1, "a"))
    effects = machine.apply(want("b"))
    assert [type(effect) for effect in effects] == [Reject, Stop]


def test_a_changed_model_gets_a_new_engine_beside_the_old_one():
    machine = Machine(want())
    machine.loaded("f-m")
    assert machine.apply(Want("f-2", "m", 100)) == [Spawn("f-2", 2)]
    machine(registry.on_acquire, Waiter(2, "m"))
    assert machine(registry.on_ready, 2) == [Grant(2, 2)]
    assert machine(registry.on_release, 1, True) == [Stop(1)]


def test_a_model_taken_back_while_draining_serves_again():
    machine = Machine(want())
    machine.loaded("f-m")
    machine.apply()
    assert machine.apply(want()) == []
    assert machine(registry.on_acquire, Waiter(2, "m")) == [Grant(2, 1)]


def test_a_changed_idle_time_counts_from_the_same_moment():
    machine = Machine(want(idle_unload=1000))
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    machine(registry.on_tick, after=50)
    assert machine.apply(want(idle_unload=10)) == [Stop(1)]


def test_closing_tells_waiters_and_ends_engines_with_their_last_lease():
    machine = Machine(want("a"), want("b"), want("c"))
    machine.loaded("f-a")
    machine.loaded("f-b", waiter=2)
    machine(registry.on_release, 2, True)
    machine(registry.on_acquire, Waiter(3, "c"))
    effects = machine(registry.on_close)
    assert [type(effect) for effect in effects] == [Reject, Stop, Stop]
    assert isinstance(machine(registry.on_acquire, Waiter(4, "a"))[0].error, Unavailable)
    assert machine(registry.on_release, 1, True) == [Stop(1)]


# ---- engines that die
def died(machine, number, lonely=True):
    """Process `number` dies by itself and is reaped."""
    return machine(registry.on_lost, number) + machine(registry.on_gone, number, None, lonely)


def test_whoever_has_to_be_alone_waits_for_the_others_and_nobody_begins_meanwhile():
    machine = Machine(want())
    machine.loaded("f-m")
    assert machine(registry.on_acquire, Waiter(2, "m", alone=True)) == []
    assert machine(registry.on_acquire, Waiter(3, "m")) == []
    assert machine(registry.on_release, 1, True) == [Grant(2, 1)]
    assert machine(registry.on_acquire, Waiter(4, "m")) == []
    assert machine(registry.on_release, 2, True) == [Grant(3, 1), Grant(4, 1)]


def test_suspects_are_tried_one_after_the_other():
    machine = Machine(want())
    for waiter in (1, 2, 3):
        machine(registry.on_acquire, Waiter(waiter, "m", alone=waiter < 3, resumed=True))
    assert machine(registry.on_ready, 1) == [Grant(1, 1)]
    assert machine(registry.on_cleared, 1) == [], "the next suspect waits until it is gone"
    assert machine(registry.on_release, 1, True) == [Grant(2, 1)]
    assert machine(registry.on_cleared, 2) == [Grant(3, 1)], "nobody else has to be alone"


def test_lonely_deaths_in_a_row_close_the_door_for_a_while():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    for number in (1, 2, 3, 4):
        machine(registry.on_ready, number)
        assert died(machine, number) == []
        assert machine(registry.on_acquire, Waiter(number + 1, "m")) == [Spawn("f-m", number + 1)]
    machine(registry.on_ready, 5)
    died(machine, 5)
    assert machine(registry.on_acquire, Waiter(9, "m", resumed=True)) == [], "who had begun waits"
    [reject] = machine(registry.on_acquire, Waiter(10, "m"))
    assert isinstance(reject.error, Unavailable)
    assert (reject.error.retry_after, machine.alarm()) == (5, machine.now + 5)
    assert machine(registry.on_tick, after=5) == [Spawn("f-m", 6)]


def test_deaths_count_in_a_row_only():
    machine = Machine(want())
    number = machine.loaded("f-m")
    for _ in range(5):
        died(machine, number)
        [spawn] = machine(registry.on_acquire, Waiter(2, "m"))
        number = spawn.number
        machine(registry.on_ready, number)
        machine(registry.on_release, 2, True)
        assert machine.engine("f-m").deaths == 0
        machine(registry.on_acquire, Waiter(3, "m"))


def test_what_had_begun_waits_until_a_load_is_tried_again_but_not_for_ever():
    machine = Machine(want(retry=RetryLoad(first=1, max=2, tries=3)))
    machine(registry.on_acquire, Waiter(1, "m", resumed=True))
    for number, pause in ((1, 0), (2, 1)):
        told = machine(registry.on_gone, number, LoadFailed("killed"), False)
        assert not [effect for effect in told if isinstance(effect, Reject)]
        machine(registry.on_tick, after=pause)
    [reject] = machine(registry.on_gone, 3, LoadFailed("killed"), False)
    assert reject.error.permanent


# ---- pins
def test_a_pin_by_hand_keeps_an_engine_and_is_taken_back():
    machine = Machine(want(idle_unload=10))
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    assert machine(registry.on_pin, "m", math.inf) == []
    assert machine(registry.on_tick, after=100) == []
    assert machine(registry.on_pin, "m", 0.0) == [Stop(1)]


def test_a_pin_by_hand_of_nobody_leaves_the_pins_of_the_file():
    machine = Machine(want(idle_unload=10, pinned=True))
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    machine(registry.on_pin, "m", 0.0)
    assert machine(registry.on_tick, after=100) == []


def test_a_pin_by_hand_ends_with_its_time():
    machine = Machine(want(idle_unload=10))
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    assert machine(registry.on_pin, "m", 50.0) == []
    assert machine.alarm() == 50
    assert machine(registry.on_tick, after=50) == [Stop(1)]


def said(machine, model="m"):
    return overrides.drift(machine.state, model, machine.now)


def test_a_load_by_hand_is_drift_until_the_model_is_unloaded():
    machine = Machine(want(idle_unload=10))
    assert machine(registry.on_load, "m") == [Spawn("f-m", 1)]
    machine(registry.on_ready, 1)
    assert said(machine) == ("loaded by hand",)
    machine.apply(want(idle_unload=10))
    assert said(machine) == ("loaded by hand",)
    assert machine(registry.on_tick, after=10) == [Stop(1)]
    assert said(machine) == ()


def test_what_was_loaded_by_hand_is_loaded_again_under_another_fingerprint():
    machine = Machine(want())
    machine(registry.on_load, "m")
    machine(registry.on_ready, 1)
    other = Want(fingerprint="f-new", model="m", bytes=100)
    assert machine.apply(other) == [Spawn("f-new", 2)]
    assert said(machine) == ("loaded by hand",)


def test_an_unload_by_hand_of_what_the_file_wants_loaded_is_drift_until_a_request_comes():
    machine = Machine(want(startup=True))
    machine(registry.on_ready, 1)
    assert machine(registry.on_unload, "f-m", False) == [Stop(1)]
    machine(registry.on_gone, 1, None, False)
    assert said(machine) == ("unloaded by hand",)
    assert machine.apply(want(startup=True)) == [], "a reload does not bring it back"
    assert machine.apply(Want(fingerprint="f-new", model="m", bytes=100, startup=True)) == [], "nor another engine"
    assert said(machine) == ("unloaded by hand",)
    assert machine(registry.on_acquire, Waiter(1, "m")) == [Spawn("f-new", 2)]
    assert said(machine) == ()


def test_an_unload_takes_back_a_pin_by_hand():
    machine = Machine(want())
    machine.loaded("f-m")
    machine(registry.on_release, 1, True)
    machine(registry.on_pin, "m", math.inf)
    assert machine(registry.on_unload, "f-m", False) == [Stop(1)]
    assert said(machine) == ()


def test_an_engine_unloaded_at_once_serves_nobody_new_and_ends_with_its_last_lease():
    machine = Machine(want())
    machine.loaded("f-m")
    assert machine(registry.on_unload, "f-m", True) == []
    assert machine(registry.on_acquire, Waiter(2, "m")) == [], "it comes after the unload, and loads it again"
    assert machine(registry.on_release, 1, False) == [Stop(1)]
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-m", 2)]
    assert machine(registry.on_ready, 2) == [Grant(2, 2)]


def test_those_who_wait_for_an_engine_that_is_unloaded_at_once_are_told():
    machine = Machine(want())
    machine(registry.on_acquire, Waiter(1, "m"))
    stop, reject = sorted(machine(registry.on_unload, "f-m", True), key=lambda effect: isinstance(effect, Reject))
    assert (stop, reject.waiter) == (Stop(1), 1)
    assert "unloaded by hand" in reject.error.message


@pytest.mark.parametrize(
    "keep, more, unloaded_after",
    [
        pytest.param(None, {}, 10, id="as the deployment says"),
        pytest.param(100, {}, 100, id="longer"),
        pytest.param(0, {}, 0, id="not at all"),
        pytest.param(math.inf, {}, None, id="for good"),
        pytest.param(0, {"pinned": True}, None, id="not at all, but it is pinned"),
    ],
)
def test_the_request_that_came_last_says_how_long_its_model_is_kept(keep, more, unloaded_after):
    machine = Machine(want(idle_unload=10, **more))
    machine(registry.on_acquire, Waiter(1, "m", keep=50))
    machine(registry.on_ready, 1)
    machine(registry.on_acquire, Waiter(2, "m", keep=keep))
    machine(registry.on_release, 2, True)
    stops = machine(registry.on_release, 1, True)
    assert (stops == [Stop(1)]) == (unloaded_after == 0)
    if unloaded_after != 0:
        assert machine.alarm() == unloaded_after


def test_a_wish_to_be_kept_is_said_as_drift():
    machine = Machine(want(idle_unload=10))
    machine(registry.on_acquire, Waiter(1, "m", keep=7200))
    machine(registry.on_ready, 1)
    assert said(machine) == ("kept 2h after its last request, which asked for that",)


def test_models_that_a_reload_makes_exclusive_are_parted():
    machine = Machine(want("a"), want("b"))
    machine.loaded("f-a", 1)
    machine(registry.on_release, 1, True)
    machine.loaded("f-b", 2)
    machine(registry.on_release, 2, True)
    apart = {"exclusive": (frozenset({"f-a", "f-b"}),)}
    assert machine.apply(want("a"), want("b"), policy=apart) == [Stop(1)], "the one used last stays"


def test_a_busy_model_that_a_reload_makes_exclusive_ends_with_its_last_lease():
    machine = Machine(want("a"), want("b"))
    machine.loaded("f-a", 1)
    machine.loaded("f-b", 2)
    apart = {"exclusive": (frozenset({"f-a", "f-b"}),)}
    assert machine.apply(want("a"), want("b"), policy=apart) == []
    [leaving] = [name for name in ("f-a", "f-b") if machine.engine(name).state is EngineState.DRAINING]
    other = {"f-a": "f-b", "f-b": "f-a"}[leaving]
    assert machine(registry.on_acquire, Waiter(3, machine.engine(leaving).want.model)) == []
    lease, number = next(iter(machine.engine(leaving).leases)), machine.engine(leaving).number
    assert machine(registry.on_release, lease, True) == [Stop(number)]
    assert machine.engine(other).state is EngineState.READY


# ---- turns
def test_a_model_that_is_asked_for_stays_for_a_while():
    machine = Machine(want("a", 500), want("b", 500), min_resident=20)
    machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "b"), after=5)
    assert machine(registry.on_release, 1, True) == []
    assert machine(registry.on_acquire, Waiter(3, "a"), after=1) == [Grant(3, 1)]
    assert machine(registry.on_release, 3, True) == []
    assert machine.alarm() == machine.now + 2, "then nobody seems to come"
    assert machine(registry.on_tick, after=2) == [Stop(1)]


def test_nobody_new_is_served_while_another_model_has_waited_too_long():
    machine = Machine(want("a", 500), want("b", 500), starve_after=30)
    machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "b"))
    assert machine(registry.on_acquire, Waiter(3, "a"), after=29) == [Grant(3, 1)]
    assert machine(registry.on_acquire, Waiter(4, "a"), after=1) == []
    assert machine(registry.on_release, 1, True) == []
    assert machine(registry.on_release, 3, True) == [Stop(1)]
    assert machine(registry.on_gone, 1, None, False) == [Spawn("f-b", 2)]
    assert machine(registry.on_ready, 2) == [Grant(2, 2)]


def test_whoever_waited_for_a_load_is_served_by_it_though_others_have_waited_too_long_meanwhile():
    machine = Machine(want("a", 500), want("b", 500), starve_after=30)
    machine(registry.on_acquire, Waiter(1, "a"))
    machine(registry.on_acquire, Waiter(2, "b"))
    assert machine(registry.on_ready, 1, after=60) == [Grant(1, 1)]
    assert machine(registry.on_acquire, Waiter(3, "a"), after=1) == []
    assert machine(registry.on_release, 1, True) == [Stop(1)]


def test_those_who_leave_starve_nobody():
    machine = Machine(want("a", 500), want("b", 500), starve_after=30)
    machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "b"))
    machine(registry.on_acquire, Waiter(3, "a"), after=30)
    assert machine(registry.on_leave, 2) == [Grant(3, 1)]


def test_nobody_waits_for_memory_longer_than_allowed_but_what_had_begun():
    machine = Machine(want("a", 500), want("b", 500), max_wait=60)
    machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "b"))
    machine(registry.on_acquire, Waiter(3, "b", resumed=True))
    assert machine.alarm() == 60
    [reject] = machine(registry.on_tick, after=60)
    assert (reject.waiter, type(reject.error), reject.error.retry_after) == (2, Unavailable, 60)


def test_who_waited_in_vain_is_told_by_how_often_models_take_turns():
    machine = Machine(want("a", 300), want("b", 300), want("c", 700), want("d", 700), max_wait=60)
    machine.loaded("f-a")
    machine.now += 25
    machine.loaded("f-b", waiter=2)
    machine(registry.on_acquire, Waiter(3, "d"))
    machine(registry.on_acquire, Waiter(4, "c"))
    rejects = machine(registry.on_tick, after=60)
    waits = {each.waiter: each.error.retry_after for each in rejects}
    assert waits == {3: 85, 4: 120}, "one turn in 85 s, and two are longer than anybody waits"


def test_what_was_measured_replaces_what_was_expected():
    machine = Machine(want("a", 700), want("b", 300))
    number = machine.loaded("f-a")
    machine(registry.on_acquire, Waiter(2, "b"))
    assert machine(registry.on_measured, None, number, 500) == [Spawn("f-b", 2)]


def test_a_machine_that_is_full_is_told_as_passing():
    machine = Machine(want("a", 500), policy={"keep_free": 100})
    machine(registry.on_measured, 550, None, None)
    [reject] = machine(registry.on_acquire, Waiter(1, "a"))
    assert "keep_free" in reject.error.message


# ---- rolled back
@pytest.mark.parametrize(
    "speech, effects",
    [
        pytest.param((), [], id="nothing it is spoken to with"),
        pytest.param((Speech(None, "{}", "hermes_json", "none"),), [Spawn("f-new", 3)], id="its dialects"),
    ],
)
def test_what_was_rolled_back_is_tried_again_where_a_reload_changed(speech, effects):
    machine = Machine(want())
    machine.loaded("f-m")
    new = Want(fingerprint="f-new", model="m", bytes=100)
    assert machine.apply(new) == [Spawn("f-new", 2)]
    machine(registry.on_gone, 2, LoadFailed("it reads no calls", permanent=True), False)
    assert [rolled.message for rolled in machine.state.rolled.values()] == ["it reads no calls"]
    assert machine.apply(replace(new, speech=speech)) == effects
