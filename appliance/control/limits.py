"""How much a key may ask for: rates, quotas and requests at a time. PURE: `now` in seconds and the day come in.

A rate is a bucket that fills evenly and holds one window's worth. What an answer costs is known at its end only, so
tokens may drive a bucket below nothing: the next request waits until it has room again, and over time the rate holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from appliance.config.access import Limits
from appliance.config.units import Rate
from appliance.errors import RateLimited

LONGEST_RETRY = 120.0
"""Seconds; clients do not wait for more."""
PACE_SECONDS = 60.0
PACE_OF = 16
"""How many ends of a key's requests are remembered: they say when there is room for another."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is left at a time; None is a full one."""

    left: float
    at: float


@dataclass(frozen=True, slots=True)
class Account:
    """What one key has used. `used` are the tokens of `day`, `ends` the times its latest requests were over."""

    requests: Bucket | None = None
    tokens: Bucket | None = None
    running: int = 0
    day: date = date.min
    used: int = 0
    ends: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """`now` in seconds of any clock that never goes back; `midnight` seconds until the next day begins."""

    now: float
    today: date
    midnight: float


@dataclass(frozen=True, slots=True)
class Standing:
    """One rate as clients are told: `reset` are the seconds until the bucket is full again."""

    kind: str
    limit: int
    remaining: int
    reset: float


def level(bucket: Bucket | None, rate: Rate, now: float) -> float:
    """What is left now, of at most `rate.count`."""
    if bucket is None:
        return float(rate.count)
    return min(float(rate.count), bucket.left + max(0.0, now - bucket.at) * rate.count / rate.seconds)


def taken(bucket: Bucket | None, rate: Rate, amount: float, now: float) -> Bucket:
    return Bucket(level(bucket, rate, now) - amount, now)


def until(bucket: Bucket | None, rate: Rate, wanted: float, now: float) -> float:
    """Seconds until so much is left."""
    return max(0.0, wanted - level(bucket, rate, now)) * rate.seconds / rate.count


def enter(limits: Limits, account: Account, moment: Moment, name: str) -> Account:
    """A request of the key `name` begins. Raises RateLimited, and takes nothing then."""
    account = _of_today(account, moment.today)
    now = moment.now
    if limits.concurrent is not None and account.running >= limits.concurrent:
        raise _refused(name, f"{limits.concurrent} requests at a time", retry_after(1, account.ends, now))
    if limits.daily_tokens is not None and account.used >= limits.daily_tokens:
        raise _refused(name, f"{limits.daily_tokens} tokens a day", moment.midnight)
    if limits.tokens is not None and (wait := until(account.tokens, limits.tokens, 1, now)) > 0:
        raise _refused(name, f"{_words(limits.tokens)} tokens", wait)
    if limits.requests is not None:
        if (wait := until(account.requests, limits.requests, 1, now)) > 0:
            raise _refused(name, f"{_words(limits.requests)} requests", wait)
        account = replace(account, requests=taken(account.requests, limits.requests, 1, now))
    return replace(account, running=account.running + 1)


def spend(limits: Limits, account: Account, tokens: int, moment: Moment) -> Account:
    """Tokens were read or written for a request that has begun."""
    account = _of_today(account, moment.today)
    bucket = account.tokens
    if limits.tokens is not None:
        bucket = taken(bucket, limits.tokens, tokens, moment.now)
    return replace(account, tokens=bucket, used=account.used + tokens)


def leave(account: Account, now: float) -> Account:
    """A request that had begun is over."""
    return replace(account, running=account.running - 1, ends=(*account.ends, now)[-PACE_OF:])


def standings(limits: Limits, account: Account, now: float) -> Iterator[Standing]:
    """Where the key stands with each of its rates."""
    for kind, rate, bucket in (
        ("requests", limits.requests, account.requests),
        ("tokens", limits.tokens, account.tokens),
    ):
        if rate is not None:
            left = level(bucket, rate, now)
            yield Standing(kind, rate.count, max(0, int(left)), until(bucket, rate, rate.count, now))


def _of_today(account: Account, today: date) -> Account:
    return account if account.day == today else replace(account, day=today, used=0)


def _words(rate: Rate) -> str:
    windows = {1.0: "a second", 60.0: "a minute", 3600.0: "an hour", 86400.0: "a day"}
    return f"{rate.count} {windows[rate.seconds]} in"


def _refused(name: str, what: str, wait: float) -> RateLimited:
    return RateLimited(f"the key `{name}` has reached its limit of {what}", retry_after=wait)


def retry_after(waiting: int, starts: Sequence[float], now: float) -> float:
    """Seconds until as many requests as wait now will have begun, at the pace of the latest `starts`, or of whatever
    lets one begin: a pause before those of the last minute says nothing of it.
    """
    recent = [start for start in starts if start > now - PACE_SECONDS]
    measured = recent if len(recent) > 1 else starts
    pace = (len(measured) - 1) / (now - measured[0]) if len(measured) > 1 and now > measured[0] else 1.0
    return min(max(1.0, waiting / pace), LONGEST_RETRY)
