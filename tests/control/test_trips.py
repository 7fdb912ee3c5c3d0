"""When a failing model is left alone, and how it comes back: `now` is a number."""

from appliance.control.trips import Trips

DWELL, TRIP = 30.0, 3


def tripped() -> Trips:
    trips = Trips({})
    for now in (1.0, 2.0, 3.0):
        assert trips.admits("big", DWELL, now)
        trips.failed("big", TRIP, now)
    return trips


def test_it_is_tried_until_it_failed_so_often_in_a_row() -> None:
    assert not tripped().admits("big", DWELL, 4.0)


def test_an_answer_in_between_forgets_the_failures() -> None:
    trips = Trips({})
    for now in range(10):
        trips.failed("big", TRIP, float(now))
        trips.failed("big", TRIP, float(now))
        trips.answered("big")
        assert trips.admits("big", DWELL, float(now))


def test_others_are_tried_as_before() -> None:
    assert tripped().admits("small", DWELL, 4.0)


def test_after_the_dwell_one_request_at_a_time_finds_out() -> None:
    trips = tripped()
    assert not trips.admits("big", DWELL, 3.0 + DWELL - 0.1)
    assert [trips.admits("big", DWELL, 3.0 + DWELL) for _ in range(3)] == [True, False, False]


def test_a_probe_that_fails_begins_another_dwell() -> None:
    trips = tripped()
    assert trips.admits("big", DWELL, 40.0)
    trips.failed("big", TRIP, 50.0)
    assert not trips.admits("big", DWELL, 79.9)
    assert trips.admits("big", DWELL, 80.0)


def test_a_probe_that_is_answered_ends_it() -> None:
    trips = tripped()
    assert trips.admits("big", DWELL, 40.0)
    trips.answered("big")
    assert all(trips.admits("big", DWELL, 40.0) for _ in range(3))
    trips.failed("big", TRIP, 41.0)
    assert trips.admits("big", DWELL, 42.0)
