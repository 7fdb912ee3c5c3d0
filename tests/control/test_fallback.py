"""Who takes over, and until when."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from appliance.control.fallback import first_that_answers
from appliance.errors import ApplianceError, LoadFailed, TimedOut

Begun = list[str]


def attempt(
    begun: Begun, name: str, items: int, error: type[ApplianceError] | None
) -> Callable[[], AsyncGenerator[str, None]]:
    async def run() -> AsyncGenerator[str, None]:
        begun.append(name)
        for number in range(items):
            yield f"{name}{number}"
        if error is not None:
            raise error(name)

    return run


CASES = {
    "the first answers": ([("a", 2, None), ("b", 1, None)], ["a0", "a1"], None, "a"),
    "the second takes over": ([("a", 0, LoadFailed), ("b", 1, None)], ["b0"], None, "ab"),
    "the third takes over": ([("a", 0, LoadFailed), ("b", 0, LoadFailed), ("c", 1, None)], ["c0"], None, "abc"),
    "nobody does after the first item": ([("a", 1, LoadFailed), ("b", 1, None)], ["a0"], "a", "a"),
    "nobody does for another reason": ([("a", 0, TimedOut), ("b", 1, None)], [], "a", "a"),
    "the last error is told": ([("a", 0, LoadFailed), ("b", 0, LoadFailed)], [], "b", "ab"),
    "an error of the second for another reason": (
        [("a", 0, LoadFailed), ("b", 0, TimedOut), ("c", 1, None)], [], "b", "ab",
    ),
    "an empty answer is an answer": ([("a", 0, None), ("b", 1, None)], [], None, "a"),
}  # fmt: skip


@pytest.mark.parametrize(("attempts", "items", "error", "asked"), CASES.values(), ids=CASES)
def test_the_next_model_answers_only_where_nothing_was_said_yet(
    attempts: list[tuple[str, int, type[ApplianceError] | None]], items: list[str], error: str | None, asked: str
) -> None:
    begun: Begun = []
    got: list[str] = []

    async def run() -> None:
        made = [attempt(begun, *each) for each in attempts]
        async for item in first_that_answers(made, lambda raised: isinstance(raised, LoadFailed)):
            got.append(item)

    if error is None:
        asyncio.run(run())
    else:
        with pytest.raises(ApplianceError, match=error):
            asyncio.run(run())
    assert (got, begun) == (items, list(asked))
