"""Another model's answer where one fails before its first event: afterwards a client has heard something already."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from appliance.errors import ApplianceError

Item = TypeVar("Item")


async def first_that_answers(
    attempts: Sequence[Callable[[], AsyncGenerator[Item, None]]], falls: Callable[[ApplianceError], bool]
) -> AsyncGenerator[Item, None]:
    """What the first attempt that gives anything gives. Each is begun when the one before it failed for a reason that
    `falls`; raises the error of the last one that was begun.
    """
    for left, attempt in zip(range(len(attempts) - 1, -1, -1), attempts, strict=True):
        given = False
        try:
            async with aclosing(attempt()) as items:
                async for item in items:
                    given = True
                    yield item
            return
        except ApplianceError as error:
            if given or not left or not falls(error):
                raise
