"""Buckets, quotas and requests at a time, with the clock as a number."""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config.access import Limits
from appliance.config.units import Rate
from appliance.control.limits import Account, Moment, Standing, enter, leave, retry_after, spend, standings
from appliance.errors import RateLimited

TODAY = date(2026, 11, 29)
A_MINUTE = Rate(60, 60.0)


def at(now: float, day: date = TODAY) -> Moment:
    return Moment(now, day, midnight=3600.0)


def entered(limits: Limits, times: int, now: float = 0.0) -> Account:
    account = Account()
    for _ in range(times):
        account = enter(limits, account, at(now), "ci")
    return account


REFUSALS = {
    "as many as there are": (Limits(requests=A_MINUTE), entered(Limits(requests=A_MINUTE), 60), 0.0, 1.0),
    "half a request later": (Limits(requests=A_MINUTE), entered(Limits(requests=A_MINUTE), 60), 0.5, 0.5),
    "no room beside those that run": (Limits(concurrent=2), Account(running=2), 0.0, 1.0),
    "no room beside those that run, of which one ends every 20 s": (
        Limits(concurrent=2), Account(running=2, ends=(10.0, 30.0, 50.0)), 50.0, 20.0),
    "no room beside those that run for an hour": (
        Limits(concurrent=2), Account(running=2, ends=(0.0, 3600.0)), 3600.0, 120.0),
    "the day is used up": (Limits(daily_tokens=100), Account(day=TODAY, used=100), 0.0, 3600.0),
    "tokens in debt": (
        Limits(tokens=A_MINUTE), spend(Limits(tokens=A_MINUTE), Account(), 160, at(0)), 0.0, 101.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("limits", "account", "now", "wait"), REFUSALS.values(), ids=REFUSALS)
def test_a_key_at_its_limit_is_told_when_to_come_back(
    limits: Limits, account: Account, now: float, wait: float
) -> None:
    with pytest.raises(RateLimited, match="the key `ci` has reached its limit of") as refused:
        enter(limits, account, at(now), "ci")
    assert refused.value.retry_after == pytest.approx(wait)


PASSES = {
    "without limits": (Limits(), Account(running=9, used=10**9), 0.0),
    "the first": (Limits(A_MINUTE, A_MINUTE, 1, 1), Account(), 0.0),
    "one second after the last": (Limits(requests=A_MINUTE), entered(Limits(requests=A_MINUTE), 60), 1.0),
    "after another has left": (Limits(concurrent=2), leave(Account(running=2), 0.0), 0.0),
    "one token below the day's": (Limits(daily_tokens=100), Account(day=TODAY, used=99), 0.0),
    "on the next day": (Limits(daily_tokens=100), Account(day=TODAY - timedelta(days=1), used=100), 0.0),
    "the debt is paid": (Limits(tokens=A_MINUTE), spend(Limits(tokens=A_MINUTE), Account(), 160, at(0)), 101.0),
    "limits that were raised": (Limits(requests=Rate(120, 60.0)), entered(Limits(requests=A_MINUTE), 60), 0.5),
}


@pytest.mark.parametrize(("limits", "account", "now"), PASSES.values(), ids=PASSES)
def test_a_key_with_room_passes(limits: Limits, account: Account, now: float) -> None:
    assert enter(limits, account, at(now), "ci").running == account.running + 1


def test_a_refused_request_takes_nothing() -> None:
    limits = Limits(requests=A_MINUTE, concurrent=1)
    account = entered(limits, 1)
    for _ in range(5):
        with pytest.raises(RateLimited):
            enter(limits, account, at(0), "ci")
    assert next(standings(limits, account, 0.0)).remaining == 59


def test_standings_say_what_is_left_and_when_it_is_full_again() -> None:
    limits = Limits(requests=A_MINUTE, tokens=Rate(1000, 3600.0))
    account = spend(limits, entered(limits, 3), 1500, at(0))
    assert list(standings(limits, account, 1.0)) == [
        Standing("requests", 60, 58, pytest.approx(2.0)),
        Standing("tokens", 1000, 0, pytest.approx(1500 * 3.6 - 1)),
    ]
    assert list(standings(Limits(concurrent=3), account, 1.0)) == []


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200))
def test_over_any_window_no_more_pass_than_the_bucket_and_its_flow(steps: list[tuple[float, bool]]) -> None:
    limits, account, now, passed = Limits(requests=Rate(10, 10.0)), Account(), 0.0, 0
    for pause, leaves in steps:
        now += pause
        try:
            account = enter(limits, account, at(now), "ci")
            passed += 1
        except RateLimited as refused:
            assert enter(limits, account, at(now + refused.retry_after + 1e-6), "ci")  # type: ignore[operator]
        if leaves and account.running:
            account = leave(account, now)
    assert passed <= 10 + now + 1e-6


def test_a_clock_that_stands_still_gives_nothing_back() -> None:
    limits = Limits(requests=A_MINUTE)
    account = entered(limits, 60, now=5.0)
    with pytest.raises(RateLimited):
        enter(limits, replace(account), at(4.0), "ci")


@pytest.mark.parametrize(
    ("waiting", "starts", "now", "seconds"),
    [
        pytest.param(10, [], 5.0, 10.0, id="nothing has begun yet"),
        pytest.param(10, [0.0, 1.0, 2.0], 2.0, 10.0, id="one a second"),
        pytest.param(10, [0.0, 0.1, 0.2, 0.3, 0.4], 0.4, 1.0, id="ten a second"),
        pytest.param(10, [0.0, 1000.0, 1000.5, 1001.0], 1001.0, 5.0, id="two a second since a while"),
        pytest.param(1, [0.0, 10.0], 100.0, 100.0, id="none for a minute"),
        pytest.param(256, [0.0, 10.0], 10.0, 120.0, id="never longer than clients wait"),
    ],
)
def test_waiting_is_measured_by_the_pace(waiting: int, starts: list[float], now: float, seconds: float) -> None:
    assert retry_after(waiting, starts, now) == pytest.approx(seconds)
