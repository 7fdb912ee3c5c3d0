"""When a failed load may be tried again, and what requests are told until then. PURE."""

import math
from dataclasses import dataclass

from appliance.errors import ApplianceError, LoadFailed, SourceError, Unavailable

FREE_TRIES = 1
"""How many failed loads in a row the waiting requests sit through before they are told."""
FIRST_PAUSE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no engine: `tries` loads in a row failed; from `retry_at` on the next request is the probe."""

    error: ApplianceError
    permanent: bool
    tries: int
    retry_at: float


def following(previous: Failure | None, error: ApplianceError, permanent: bool, now: float) -> Failure:
    """The failure after `previous`; a permanent one is never tried again, the pause of others doubles."""
    tries = previous.tries + 1 if previous else 1
    if permanent:
        return Failure(error, True, tries, math.inf)
    if tries <= FREE_TRIES:
        return Failure(error, False, tries, now)
    pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(tries - 1 - FREE_TRIES, 16))
    return Failure(error, False, tries, now + pause)


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
