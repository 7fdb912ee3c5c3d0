"""Who is called when something happens to engines and their files."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from appliance.control.suspicion import End


def _nobody(*happened: object) -> None: ...


async def _nothing() -> None: ...


@dataclass(slots=True)
class Followers:
    """`fetched` is awaited after a download, so that whoever resolves deployments can look at the new files.

    `changed` is called whenever something about an engine may have changed, `died` with model, pid and end of an
    engine that ended by itself, `removed` with source and bytes of a fetched model that made room.
    """

    fetched: Callable[[], Awaitable[object]] = _nothing
    changed: Callable[[], None] = _nobody
    died: Callable[[str, int, End], None] = _nobody
    removed: Callable[[str, int], None] = _nobody
