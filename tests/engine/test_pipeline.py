"""What a client gets of a sequence's tokens, and when it ends."""

import itertools

import pytest

from appliance.engine.backend import Candidate, Sampled
from appliance.engine.fake.tokenizer import END, FakeTokenizer
from appliance.engine.pipeline import Limits, Pipeline
from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.vocab.event import Finished, ReasoningDelta, TextDelta, ToolCallDelta, Usage

BYTES = FakeTokenizer(1)
ENDS = frozenset({END})


def pipeline(*, ends=ENDS, room=1000, min_tokens=0, logprobs=False, **channels) -> Pipeline:
    made = Channels(new_id=itertools.count().__next__, **channels) if channels else None
    return Pipeline(BYTES, Limits(ends, room, min_tokens), prompt_tokens=5, channels=made, logprobs=logprobs)


def tokens_of(text: str | bytes, size: int = 1) -> list[int]:
    data = text.encode() if isinstance(text, str) else text
    return [int.from_bytes(b"\x01" + data[at : at + size], "big") for at in range(0, len(data), size)]


def feed(made: Pipeline, tokens: list[int]) -> list:
    events = []
    for token in tokens:
        if not made.finished:
            events += made.feed(Sampled(token))
    return events


def text(events: list) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


THINK_AND_CALL = {
    "reasoning": reasoning.find("think_tags"),
    "tools": dialects.find("hermes_json"),
    "declared": {"f": {}},
}


@pytest.mark.parametrize(
    ("options", "tokens", "expected", "reason", "stop"),
    [
        pytest.param({}, [*tokens_of("hi"), END], "hi", "stop", None, id="the end token ends it"),
        pytest.param({"room": 3}, tokens_of("hello"), "hel", "length", None, id="as many tokens as there is room"),
        pytest.param({"ends": ENDS | {321}}, tokens_of("hAllo"), "h", "stop", None, id="a stop token is no text"),
        pytest.param(
            {"stops": ["lo"]}, tokens_of("hello you"), "hel", "stop", "lo", id="a stop string over two tokens"
        ),
        pytest.param(
            {"stops": ["lo w"], "room": 5},
            tokens_of("hello w"),
            "hello",
            "length",
            None,
            id="a cut stop string is text",
        ),
        pytest.param(
            {"stops": ["b", "abc"], "room": 2},
            tokens_of("abc"),
            "a",
            "stop",
            "b",
            id="the end decides for a stop string",
        ),
        pytest.param(
            {"stops": ["a"], "min_tokens": 2},
            tokens_of("abac"),
            "ab",
            "stop",
            "a",
            id="min_tokens before a stop string",
        ),
        pytest.param(
            {"min_tokens": 2}, [END, *tokens_of("ab"), END], "ab", "stop", None, id="min_tokens before an end token"
        ),
        pytest.param(
            {**THINK_AND_CALL},
            [*tokens_of('<tool_call>{"name":"f"}</tool_call>'), END],
            "",
            "tool_calls",
            None,
            id="a call is a reason to end",
        ),
        pytest.param(
            {**THINK_AND_CALL, "room": 35},
            tokens_of('<tool_call>{"name":"f"}</tool_call>and more'),
            "",
            "length",
            None,
            id="a call before the limit is not",
        ),
    ],
)
def test_a_sequence_ends_for_one_reason(options, tokens, expected, reason, stop):
    made = pipeline(**options)
    events = feed(made, tokens)
    assert text(events) == expected
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
    assert (events[-1].reason, events[-1].stop) == (reason, stop)
    assert made.finished


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("a😀é한b".encode(), "a😀é한b", id="characters of one to four bytes"),
        pytest.param(b"a\xffb", "a\ufffdb", id="a byte that begins nothing"),
        pytest.param(b"a\xf0\x9fb", "a\ufffdb", id="a character another one interrupts"),
        pytest.param(b"a\xf0\x9f\x98", "a", id="a character the end cuts is left out"),
        pytest.param("👩‍👩‍👧".encode(), "👩‍👩‍👧", id="joined emoji"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_only_whole_characters_leave(data, expected, size):
    events = feed(pipeline(), [*tokens_of(data, size), END])
    assert text(events) == expected
    assert (
        all("\ufffd" not in e.text for e in events[:-2] if isinstance(e, TextDelta))
        or b"\xff" in data
        or b"b" in data
    )


def test_usage_counts_tokens_where_they_belong():
    made = pipeline(**THINK_AND_CALL)
    made.cached_tokens = 3
    events = feed(made, [*tokens_of("<think>why</think>yes"), END])
    assert events[-1].usage.prompt_tokens == 5
    assert events[-1].usage.completion_tokens == len("<think>why</think>yes") + 1
    assert events[-1].usage.cached_tokens == 3
    assert events[-1].usage.reasoning_tokens == len("why</think>")


STREAMS = {
    "plain": ({}, "hello 😀 you"),
    "stop string": ({"stops": ["you"]}, "hello 😀 you there"),
    "reasoning and call": (THINK_AND_CALL, '<think>why 😀</think>yes<tool_call>{"name":"f"}</tool_call>'),
}


@pytest.mark.parametrize(("options", "answer"), STREAMS.values(), ids=STREAMS)
def test_a_replay_at_any_token_continues_as_if_undisturbed(options, answer):
    tokens = [*tokens_of(answer), END]
    undisturbed, per_token = pipeline(**options), []
    for token in tokens:
        per_token.append([] if undisturbed.finished else undisturbed.feed(Sampled(token)))
    for at in range(len(tokens)):
        made = pipeline(**options)
        ended = made.begin(tokens[:at])
        if made.finished:
            assert [type(e) for e in ended] == [Finished]
        else:
            assert ended == []
            rest = [e for token in tokens[at:] if not made.finished for e in made.feed(Sampled(token))]
            assert shape(rest) == shape([e for events in per_token[at:] for e in events])


def shape(events: list) -> list:
    """Ids of calls are drawn anew; all else must be equal."""
    return [(e.index, e.name, e.arguments) if isinstance(e, ToolCallDelta) else e for e in events]


@pytest.mark.parametrize(
    ("options", "emitted", "reason"),
    [
        pytest.param({}, [*tokens_of("a"), END], "stop", id="by an end token"),
        pytest.param({"room": 2}, tokens_of("ab"), "length", id="by their number"),
        pytest.param({"stops": ["ab"]}, tokens_of("xabc"), "stop", id="by a stop string"),
        pytest.param({"room": 0}, [], "length", id="by asking for no tokens"),
    ],
)
def test_emitted_tokens_may_end_it_already(options, emitted, reason):
    (ended,) = pipeline(**options).begin(emitted)
    assert ended.reason == reason
    assert ended.usage == Usage(5, min(len(emitted), 3))


def with_logprobs(made: Pipeline, tokens: list[int]) -> list:
    sampled = (Sampled(token, -0.5, (Candidate(token, -0.5), Candidate(320, -2.0))) for token in tokens)
    return [e for s in sampled if not made.finished for e in made.feed(s)]


@pytest.mark.parametrize(
    ("options", "answer", "size", "whole"),
    [
        pytest.param({}, "hello 😀 you", 3, True, id="plain"),
        pytest.param({}, "😀😀é", 1, True, id="one byte a token"),
        pytest.param({"stops": ["zzz"]}, "hello zz 😀", 2, True, id="held back and released"),
        pytest.param({"stops": ["you"]}, "hello you there", 1, True, id="tokens of a stop string are left out"),
        pytest.param({"stops": ["o y"]}, "hello you", 2, False, id="a token that is partly a stop string"),
        pytest.param(THINK_AND_CALL, "<think>why</think>yes", 1, True, id="reasoning"),
    ],
)
def test_the_bytes_of_the_logprobs_are_the_text(options, answer, size, whole):
    tokens = [*tokens_of(answer, size), END]
    events = with_logprobs(pipeline(logprobs=True, **options), tokens)
    sent = "".join(e.text for e in events if isinstance(e, TextDelta | ReasoningDelta))
    joined = b"".join(item.raw for e in events if isinstance(e, TextDelta | ReasoningDelta) for item in e.logprobs)
    assert joined == sent.encode() if whole else joined.startswith(sent.encode())
    assert sent == text(feed(pipeline(**options), tokens)) or options is THINK_AND_CALL


def test_a_logprob_comes_with_the_end_of_its_text():
    made = pipeline(logprobs=True)
    assert with_logprobs(made, tokens_of("😀")[:3]) == []
    (delta,) = with_logprobs(made, tokens_of("😀")[3:])
    assert [(item.raw, item.logprob) for item in delta.logprobs] == [(bytes([b]), -0.5) for b in "😀".encode()]
    assert [(top.token, top.logprob) for top in delta.logprobs[0].top] == [("\ufffd", -0.5), ("@", -2.0)]
