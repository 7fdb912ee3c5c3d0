"""What a reader of one generation gets, however slow it is."""

import asyncio

import pytest

from appliance.control.stream import Piece, Stream
from appliance.errors import EngineDied
from appliance.vocab.event import Finished, ReasoningDelta, Started, TextDelta, TokenLogprob, Usage

END = Finished("stop", Usage(1, 2))


def stream():
    ends = []
    return Stream(ends.append), ends


async def test_pieces_come_as_they_are_fed():
    one, ends = stream()
    reader = asyncio.create_task(anext(one))
    await asyncio.sleep(0)
    one.feed((5,), (Started(1, 0),))
    assert await reader == Piece((5,), (Started(1, 0),))
    one.feed((6,), (TextDelta("a"), END))
    assert [piece async for piece in one] == [Piece((6,), (TextDelta("a"), END))]
    assert ends == [True]


async def test_adjacent_text_merges_while_the_reader_is_slow():
    one, _ = stream()
    likely = TokenLogprob("b", -1.0, b"b")
    one.feed((1,), (TextDelta("a"),))
    one.feed((2, 3), (TextDelta("b", (likely,)), ReasoningDelta("x")))
    one.feed((4,), (ReasoningDelta("y"),))
    assert await anext(one) == Piece((1, 2, 3, 4), (TextDelta("ab", (likely,)), ReasoningDelta("xy")))


async def test_tokens_without_text_are_delivered():
    one, _ = stream()
    one.feed((1,), ())
    assert await anext(one) == Piece((1,), ())


async def test_what_came_before_the_engine_died_is_delivered_first():
    one, _ = stream()
    one.feed((1,), (TextDelta("a"),))
    one.fail(EngineDied("gone"))
    assert await anext(one) == Piece((1,), (TextDelta("a"),))
    with pytest.raises(EngineDied, match="gone"):
        await anext(one)


async def test_leaving_early_is_told_once():
    one, ends = stream()
    one.feed((1,), (TextDelta("a"),))
    await one.aclose()
    await one.aclose()
    assert ends == [False]
