"""Every request of a model is counted once, with the status it ended with."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sanic.exceptions import SanicException

from appliance.errors import ApplianceError
from appliance.server.context import Context

CLIENT_LEFT = 499


@dataclass(slots=True)
class Tally:
    """`model` once it is known; `status` stays 500 where nobody says otherwise."""

    model: str = ""
    status: int = 500


@contextmanager
def tallied(context: Context, endpoint: str) -> Iterator[Tally]:
    """A request is answered in this block."""
    tally = Tally()
    try:
        yield tally
    except ApplianceError as error:
        tally.status = error.status
        raise
    except SanicException as error:  # HTTP that broke while a body was read
        tally.status = error.status_code
        raise
    except asyncio.CancelledError:
        tally.status = CLIENT_LEFT
        raise
    finally:
        context.counted.requests.add(endpoint, tally.model, str(tally.status))
