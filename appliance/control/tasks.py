"""How the parts of the supervisor reach it: an event for its registry, and a task of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from appliance.control.residency import Transition


class Happen(Protocol):
    """Tells the registry of an event, and has its effects performed."""

    def __call__(self, event: Callable[..., Transition], *what: object) -> None: ...


Own = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Starts a task that the supervisor awaits, with a name."""
