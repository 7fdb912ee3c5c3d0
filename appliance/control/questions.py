"""What an engine was asked and has not answered yet."""

import asyncio
from collections.abc import Callable

from appliance.errors import EngineDied
from appliance.wire import frames

NOBODYS = 0
"""The number of a question of which nobody awaits the answer."""


class Questions:
    """Each has a number of its own, which its answer repeats."""

    def __init__(self) -> None:
        self._asked = NOBODYS
        self._open: dict[int, asyncio.Future[frames.ToServer]] = {}

    async def ask(self, send: Callable[[int], None]) -> frames.ToServer:
        """Have a question sent with this number, and wait for its answer. Raises what `fail` was told."""
        self._asked += 1
        number = self._asked
        answer: asyncio.Future[frames.ToServer] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            send(number)
            return await answer
        finally:
            del self._open[number]

    def answered(self, number: int, reply: frames.ToServer) -> None:
        """Nobody may be waiting for it any more."""
        if (answer := self._open.get(number)) is not None and not answer.done():
            answer.set_result(reply)

    def fail(self, error: Callable[[], EngineDied]) -> None:
        """There will be no more answers."""
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(error())
