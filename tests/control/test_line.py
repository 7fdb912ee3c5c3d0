"""Where those stand who wait, and what for."""

from collections.abc import Callable

import pytest

from appliance.control import registry
from appliance.control.line import Standing, standing
from appliance.control.residency import Waiter
from appliance.errors import LoadFailed
from tests.control.test_registry import Machine, want


def busy(machine: Machine) -> None:
    machine.loaded("f-a")


def idle(machine: Machine) -> None:
    machine.loaded("f-a")
    machine(registry.on_release, 1, True)


def ending(machine: Machine) -> None:
    idle(machine)
    machine(registry.on_unload, "f-a", False)


def loading(machine: Machine) -> None:
    machine(registry.on_acquire, Waiter(1, "a"))


BESIDE: dict[str, tuple[Callable[[Machine], None], str]] = {
    "a busy one": (busy, "for memory: a answers 1 request"),
    "one that came just now": (idle, "for memory: a stays for 2s"),
    "one that ends": (ending, "for memory: a: its engine is ending"),
    "one that is being loaded": (loading, "for memory: a is being loaded"),
}


@pytest.mark.parametrize("before, reason", BESIDE.values(), ids=BESIDE.keys())
def test_the_first_in_line_waits_for_who_has_the_memory(before, reason):
    machine = Machine(want("a", 500), want("b", 500), want("c", 500), min_resident=20)
    before(machine)
    machine(registry.on_acquire, Waiter(2, "b"))
    machine(registry.on_acquire, Waiter(3, "c"))
    assert standing(machine.state, machine.engine("f-b"), machine.now) == Standing(1, reason)
    assert standing(machine.state, machine.engine("f-c"), machine.now) == Standing(2, "for memory, after b")


def test_nobody_stands_where_nobody_waits():
    machine = Machine(want())
    assert standing(machine.state, machine.engine("f-m"), 0.0) is None


def test_what_else_a_request_may_wait_for():
    machine = Machine(want("a", 500), want("b", 500), starve_after=10)
    machine(registry.on_acquire, Waiter(1, "a"))

    def of(name: str) -> str:
        found = standing(machine.state, machine.engine(f"f-{name}"), machine.now)
        assert found is not None
        assert found.position is None
        return found.reason

    assert of("a") == "it is being loaded"
    machine(registry.on_ready, 1)
    machine(registry.on_acquire, Waiter(2, "b"))
    machine(registry.on_tick, after=10)
    machine(registry.on_acquire, Waiter(3, "a"))
    assert of("a") == "it makes way for b"
    machine(registry.on_unload, "f-a", True)
    machine(registry.on_acquire, Waiter(4, "a"))
    assert of("a") == "its engine ends after 1 request; then it is loaded again"


def test_a_file_that_is_fetched_and_a_load_that_is_tried_again_are_said():
    machine = Machine(want("a", present=False), want("b"))
    machine(registry.on_acquire, Waiter(1, "a"))
    assert standing(machine.state, machine.engine("f-a"), 0.0) == Standing(None, "its files are being fetched")
    machine(registry.on_acquire, Waiter(2, "b", resumed=True))
    for number in (1, 2):
        machine(registry.on_gone, number, LoadFailed("no"), False)
    assert standing(machine.state, machine.engine("f-b"), 0.0) == Standing(None, "it is tried again in 5s")
