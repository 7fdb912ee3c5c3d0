"""A random walk through all events: the promises hold in every state it reaches."""

import math
import random

import pytest

from appliance.control import registry, turns
from appliance.control.eviction import Policy
from appliance.control.residency import (
    EngineState,
    Fetch,
    Grant,
    Registry,
    Reject,
    Spawn,
    Stop,
    Terms,
    Waiter,
    WakeAt,
    Want,
)
from appliance.errors import DiedLoading, LoadFailed, SourceError

BUDGET = 1000
RESERVE = 200
MODELS = "abcdef"


class Walk:
    """Plays the world: starts and ends processes as asked, and comes with requests, failures and deployments."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.state = Registry()
        self.now = 0.0
        self.wake = math.inf
        self.ids = 0
        self.answered: dict[int, object] = {}
        self.waiting: set[int] = set()
        self.leases: dict[int, int] = {}
        self.lone: set[int] = set()
        self.max_loaded = self.random.choice((None, 2, 3))
        self.loading: set[int] = set()
        self.alive: dict[int, str] = {}
        self.sizes: dict[str, int] = {}
        self.stopped: set[int] = set()
        self.fetching: set[str] = set()
        self.apply()

    def happen(self, event, *what):
        self.now += self.random.choice((0, 0.1, 3, 20))
        self.state, effects = event(self.state, *what, now=self.now)
        for effect in effects:
            self.perform(effect)
        self.check()
        # An alarm that was set stays set until another one takes its place.
        self.wake = next((effect.at for effect in effects if isinstance(effect, WakeAt)), self.wake)
        self.check_wake()

    def check_wake(self):
        """Nothing would follow from a look before the time it asked to be woken at: no wake-up is missing."""
        before = min(self.wake, self.now + 10_000)
        for at in (self.random.uniform(self.now, before), math.nextafter(before, self.now)):
            if self.now < at < self.wake:
                _, effects = registry.on_tick(self.state, now=at)
                assert [effect for effect in effects if not isinstance(effect, WakeAt)] == [], "a wake-up is missing"

    def perform(self, effect):
        match effect:
            case Grant(waiter, number):
                self.answer(waiter, effect)
                assert number in self.alive, "granted on a process that is not there"
                assert number not in self.stopped, "granted on a process that was told to stop"
                company = [lease for lease, held in self.leases.items() if held == number]
                assert not (company and waiter in self.lone), "joined by one that has to be alone"
                assert not self.lone & set(company), "joined one that has to be alone"
                self.leases[waiter] = number
            case Reject(waiter, _):
                self.answer(waiter, effect)
            case Spawn(fingerprint, number):
                assert number not in self.alive
                self.alive[number] = fingerprint
                self.sizes[fingerprint] = self.state.engines[fingerprint].bytes
                self.loading.add(number)
            case Stop(number):
                assert number not in self.leases.values(), "stopped an engine that is held"
                assert number not in self.stopped, "stopped twice"
                self.stopped.add(number)
            case Fetch(fingerprint):
                assert fingerprint not in self.fetching
                self.fetching.add(fingerprint)

    def answer(self, waiter, effect):
        assert waiter in self.waiting, "answered twice, or never asked"
        self.waiting.discard(waiter)
        self.answered[waiter] = effect

    def check(self):
        room = BUDGET - RESERVE
        assert sum(self.sizes[fingerprint] for fingerprint in self.alive.values()) <= room, "over the budget by plan"
        if self.max_loaded is not None:
            assert len(self.alive) <= self.max_loaded, "more than max_loaded"
        if self.exclusive:
            staying = {self.alive[number] for number in self.alive.keys() - self.stopped}
            leaving = {fingerprint for fingerprint in staying if self.state.engines[fingerprint].leaving}
            assert not {"b1", "c1"} <= staying - leaving, "exclusive models stay in memory together"
        known = {waiter.id for engine in self.state.engines.values() for waiter in engine.waiters}
        assert known == self.waiting, "a waiter was lost"
        held = {lease for engine in self.state.engines.values() for lease in engine.leases}
        assert held == self.leases.keys(), "a lease was lost"
        for engine in self.state.engines.values():
            name = engine.want.fingerprint
            alone = engine.leases and any(waiter.id in self.lone for waiter in engine.waiters)
            if engine.waiters and engine.state is EngineState.READY:
                way = name in turns.making_way(self.state, self.now)
                assert alone or way or engine.solitary in engine.leases, "waits for what is ready"

    # ---- what the world may do
    def apply(self):
        chosen = [name for name in MODELS if self.random.random() < 0.8]
        wants = {}
        names = {}
        for name in chosen:
            fingerprint = f"{name}{self.random.choice((1, 1, 1, 2))}"
            names[name] = fingerprint
            # A size belongs to a fingerprint for good, or the sum could grow without a load.
            size = random.Random(fingerprint).choice((50, 200, 350, 500))
            wants[fingerprint] = Want(
                fingerprint,
                name,
                size,
                pinned=name == "a",
                idle_unload=self.random.choice((5, 50, math.inf)),
                startup=self.random.random() < 0.2,
                present=name != "f",
            )
        self.fetching = {f for f in self.fetching if f in wants}
        self.exclusive = self.random.random() < 0.7
        apart = (frozenset({"b1", "c1"}),) if self.exclusive else ()
        policy = Policy(BUDGET, RESERVE, max_loaded=self.max_loaded, exclusive=apart)
        terms = Terms(policy, min_resident=self.random.choice((0, 10)), starve_after=30, max_wait=200)
        self.happen(registry.on_apply, wants, names, terms)

    def acquire(self):
        self.ids += 1
        self.waiting.add(self.ids)
        chance = self.random.random
        keep = self.random.choice((None, None, None, 0, 30, math.inf))
        alone, resumed, hasty = chance() < 0.1, chance() < 0.2, chance() < 0.1
        waiter = Waiter(
            self.ids, self.random.choice(MODELS), alone=alone, resumed=resumed, hasty=hasty and not resumed, keep=keep
        )
        if waiter.alone:
            self.lone.add(waiter.id)
        self.happen(registry.on_acquire, waiter)

    def leave(self):
        if self.waiting:
            waiter = self.random.choice(sorted(self.waiting))
            self.waiting.discard(waiter)
            self.happen(registry.on_leave, waiter)

    def release(self):
        if self.leases:
            lease = self.random.choice(sorted(self.leases))
            del self.leases[lease]
            self.happen(registry.on_release, lease, self.random.random() < 0.5)

    def clear(self):
        if held := sorted(self.lone & self.leases.keys()):
            lease = self.random.choice(held)
            self.lone.discard(lease)
            self.happen(registry.on_cleared, lease)

    def ready(self):
        if self.loading - self.stopped:
            number = self.random.choice(sorted(self.loading - self.stopped))
            self.loading.discard(number)
            self.happen(registry.on_ready, number)

    def end(self):
        if self.stopped:
            self.gone(self.random.choice(sorted(self.stopped)), None)

    def fail(self):
        if self.loading:
            number = self.random.choice(sorted(self.loading))
            died = self.random.random() < 0.3
            permanent = self.random.random() < 0.1
            self.gone(number, DiedLoading("died") if died else LoadFailed("no", permanent=permanent))

    def die(self):
        running = sorted(self.alive.keys() - self.loading - self.stopped)
        if running:
            number = self.random.choice(running)
            self.leases = {lease: held for lease, held in self.leases.items() if held != number}
            self.stopped.add(number)
            self.happen(registry.on_lost, number)

    def gone(self, number, error):
        del self.alive[number]
        self.loading.discard(number)
        self.stopped.discard(number)
        self.happen(registry.on_gone, number, error, error is None and self.random.random() < 0.2)

    def fetched(self):
        if self.fetching:
            fingerprint = self.random.choice(sorted(self.fetching))
            self.fetching.discard(fingerprint)
            failed = self.random.random() < 0.3
            self.happen(registry.on_fetched, fingerprint, SourceError("no", permanent=False) if failed else None)

    def unload(self):
        if self.state.engines:
            self.happen(
                registry.on_unload, self.random.choice(sorted(self.state.engines)), self.random.random() < 0.5
            )

    def load(self):
        self.happen(registry.on_load, self.random.choice(MODELS))

    def pin(self):
        # What the deployment pins and what is pinned by hand could together leave no room for the rest.
        self.happen(registry.on_pin, "d", self.now + self.random.choice((0, 20)))

    def measure(self):
        self.happen(registry.on_measured, None, None, None)

    def tick(self):
        self.happen(registry.on_tick)

    STEPS = {
        acquire: 8,
        release: 6,
        ready: 6,
        end: 6,
        tick: 4,
        leave: 1,
        clear: 2,
        fail: 1,
        die: 1,
        fetched: 2,
        apply: 1,
        unload: 1,
        load: 1,
        pin: 1,
        measure: 1,
    }

    def step(self):
        [event] = self.random.choices(list(self.STEPS), list(self.STEPS.values()))
        event(self)

    def settle(self):
        """Let everything under way come to its end, with nobody asking for more."""
        for _ in range(1000):
            if not (self.waiting or self.loading or self.stopped or self.fetching or self.leases):
                break
            for event in (Walk.ready, Walk.fetched, Walk.end, Walk.release, Walk.tick):
                event(self)


def walked(seed):
    walk = Walk(seed)
    for _ in range(400):
        walk.step()
    walk.settle()
    assert not walk.waiting, "somebody was never answered"
    assert not walk.leases
    assert walk.answered


@pytest.mark.parametrize("seed", range(40))
def test_the_promises_hold_on_every_way(seed):
    walked(seed)


@pytest.mark.proof
@pytest.mark.parametrize("hundred", range(20))
def test_the_promises_hold_on_two_thousand_ways(hundred):
    for seed in range(100):
        walked(1000 + 100 * hundred + seed)


def test_closing_ends_everything():
    walk = Walk(1)
    for _ in range(300):
        walk.step()
    walk.fetching.clear()
    walk.happen(registry.on_close)
    assert not walk.waiting
    walk.settle()
    assert not walk.alive
    assert not walk.state.engines
