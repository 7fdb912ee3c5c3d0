"""When a failed load may be tried again, and what requests are told until then. PURE."""

import math
from dataclasses import dataclass

from appliance.config.tuning import RetryLoad
from appliance.errors import ApplianceError, LoadFailed, SourceError, Unavailable

FREE_TRIES = 1
"""How many failed loads in a row the waiting requests sit through before they are told."""
FREE_LONELY_DEATHS = 4
"""Deaths in a row with a single request, as many as prove two of them guilty, that are followed by a load at once."""


DEFAULT = RetryLoad()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no engine: `tries` loads in a row failed; from `retry_at` on the next request is the probe."""

    error: ApplianceError
    permanent: bool
    tries: int
    retry_at: float


def following(
    previous: Failure | None, error: ApplianceError, permanent: bool, now: float, retry: RetryLoad = DEFAULT
) -> Failure:
    """The failure after `previous`; a permanent one, or the last of `retry.tries`, is never tried again. The pause of
    others doubles.
    """
    tries = previous.tries + 1 if previous else 1
    if permanent or tries >= retry.tries:
        return Failure(error, True, tries, math.inf)
    return Failure(error, False, tries, now + _pause(tries - FREE_TRIES, retry))


def crashing(lonely: int, model: str, now: float, retry: RetryLoad = DEFAULT) -> Failure | None:
    """The pause before the next load after so many lonely deaths in a row; None at first."""
    if lonely <= FREE_LONELY_DEATHS:
        return None
    error = Unavailable(f"the engine of {model} died {lonely} times in a row, each time with a single request")
    return Failure(error, False, 0, now + _pause(lonely - FREE_LONELY_DEATHS, retry))


def _pause(number: int, retry: RetryLoad) -> float:
    return 0.0 if number < 1 else min(retry.max, retry.first * 2.0 ** min(number - 1, 16))


def told(failure: Failure, now: float) -> ApplianceError:
    """The error for a request that is not going to wait, with the time after which to come back."""
    error = failure.error
    wait = None if failure.permanent else max(0.0, failure.retry_at - now)
    match error:
        case LoadFailed():
            return LoadFailed(error.message, permanent=failure.permanent, retry_after=wait)
        case SourceError():
            again = SourceError(error.message, permanent=failure.permanent)
            again.retry_after = wait
            return again
        case _:
            return Unavailable(error.message, retry_after=wait)
