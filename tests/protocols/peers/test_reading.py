"""What our own encoders write, the readers of peers' streams read back, however the bytes are cut."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.errors import BadRequest, Overloaded, PeerFailed, PromptTooLong, TimedOut, Unavailable, UnknownModel
from appliance.protocols.adapter import Answer
from appliance.protocols.anthropic_stream import MessageStream
from appliance.protocols.openai_stream import StreamEncoder
from appliance.protocols.peers.anthropic_answer import AnthropicAnswer
from appliance.protocols.peers.failure import failure
from appliance.protocols.peers.openai_answer import OpenAIAnswer
from appliance.protocols.peers.question import Reading
from appliance.vocab.event import (
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    TopToken,
    Usage,
)

USAGE = Usage(12, 5, 4)
PIECE = TokenLogprob("hé", -0.5, "hé".encode(), (TopToken("hi", -1.0, b"hi"),))
ANSWERS: dict[str, list[Event]] = {
    "text": [TextDelta("Hello"), TextDelta(" wörld\n\u2028"), Finished("stop", USAGE)],
    "nothing": [Finished("stop", USAGE)],
    "cut by its length": [TextDelta("x"), Finished("length", USAGE)],
    "reasoning": [ReasoningDelta("hm"), TextDelta("yes"), Finished("stop", USAGE)],
    "calls": [
        TextDelta("Let me look."),
        ToolCallDelta(0, "call_1", "weather", ""),
        ToolCallDelta(0, arguments='{"city":'),
        ToolCallDelta(0, arguments='"Bern"}'),
        ToolCallDelta(1, "call_2", "time", ""),
        ToolCallDelta(1, arguments="{}"),
        Finished("tool_calls", USAGE),
    ],
}


def openai(events: list[Event]) -> bytes:
    encoder = StreamEncoder(Answer("a", 0, "m", include_usage=True))
    return b"".join(encoder.feed(0, event) for event in (Started(12, 4), *events)) + encoder.close()


def anthropic(events: list[Event]) -> bytes:
    encoder = MessageStream(Answer("a", 0, "m"))
    return b"".join(encoder.feed(0, event) for event in (Started(12, 4), *events)) + encoder.close()


WAYS: dict[str, tuple[Callable[[list[Event]], bytes], Callable[[int], Reading]]] = {
    "openai": (openai, OpenAIAnswer),
    "anthropic": (anthropic, AnthropicAnswer),
}


def read(reading: Reading, data: bytes, size: int) -> list[Event]:
    events = [event for at in range(0, len(data), size) for event in reading.feed(data[at : at + size])]
    return events + reading.close()


def same(events: list[Event]) -> list[Event]:
    """Without ids, which Anthropic's protocol writes in its own way."""
    return [ToolCallDelta(e.index, e.id and "id", e.name, e.arguments) if isinstance(e, ToolCallDelta) else e
            for e in events]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
@pytest.mark.parametrize("events", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize(("write", "reader"), WAYS.values(), ids=WAYS)
def test_what_was_said_is_read(
    write: Callable[[list[Event]], bytes], reader: Callable[[int], Reading], events: list[Event], size: int
) -> None:
    assert same(read(reader(0), write(events), size)) == same(events)


def test_log_probabilities_are_read() -> None:
    events: list[Event] = [TextDelta("hé", (PIECE,)), Finished("stop", USAGE)]
    assert read(OpenAIAnswer(0), openai(events), 100) == events


@pytest.mark.parametrize(("write", "reader"), WAYS.values(), ids=WAYS)
@given(data=st.data())
def test_an_answer_that_is_cut_is_never_taken_for_a_whole_one(
    write: Callable[[list[Event]], bytes], reader: Callable[[int], Reading], data: st.DataObject
) -> None:
    events = data.draw(st.sampled_from([each for each in ANSWERS.values() if len(each) > 1]))
    whole = write(events)
    end = whole.index(b'"finish_reason":"' if reader is OpenAIAnswer else b"event: message_stop")
    cut = whole[: data.draw(st.integers(0, end))]
    with pytest.raises(PeerFailed):
        read(reader(0), cut, 50)


@pytest.mark.parametrize("reader", [OpenAIAnswer, AnthropicAnswer])
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_whatever_comes_is_events_or_a_peer_that_failed(reader: Callable[[int], Reading], parts: list[bytes]) -> None:
    reading = reader(3)
    try:
        for part in parts:
            reading.feed(b"data: " + part + b"\n\n")
        reading.close()
    except PeerFailed:
        pass


@pytest.mark.parametrize("reader", [OpenAIAnswer, AnthropicAnswer])
def test_a_line_without_an_end_is_given_up(reader: Callable[[int], Reading]) -> None:
    reading = reader(0)
    with pytest.raises(PeerFailed, match="no end"):
        for _ in range(20):
            reading.feed(b"x" * (1 << 20))


REFUSALS = {
    "a bad request": (400, b'{"error":{"message":"no such field"}}', BadRequest),
    "a long prompt, by OpenAI": (400, b'{"error":{"code":"context_length_exceeded","message":"x"}}', PromptTooLong),
    "a long prompt, by Anthropic": (400, b'{"error":{"message":"prompt is too long: 9 > 3"}}', PromptTooLong),
    "a key that is not taken": (401, b"{}", PeerFailed),
    "a model it has not": (404, b'{"error":{"message":"no model"}}', UnknownModel),
    "too many": (429, b'{"error":"slow down"}', Overloaded),
    "no room": (503, b"<html>", Unavailable),
    "Anthropic without room": (529, b'{"error":{"type":"overloaded_error","message":"x"}}', Unavailable),
    "a gateway's patience": (504, b"", TimedOut),
    "a fault": (500, b"\xff", PeerFailed),
    "a place elsewhere": (302, b"", PeerFailed),
    "no words at all": (418, b"[[[[", PeerFailed),
}


@pytest.mark.parametrize(("status", "body", "error"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_means_one_thing(status: int, body: bytes, error: type[Exception]) -> None:
    assert type(failure("far", status, {}, body)) is error


def test_when_to_come_back_is_passed_on() -> None:
    assert failure("far", 429, {"retry-after": "17"}, b"").retry_after == 17
    assert failure("far", 429, {"retry-after": "soon"}, b"").retry_after == 1
