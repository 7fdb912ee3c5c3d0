"""The bytes an OpenAI client reads, streamed and whole."""

import json
from typing import Any

import pytest

from appliance.errors import EngineDied, Unavailable
from appliance.protocols.adapter import Answer
from appliance.protocols.openai_calls import CallForm
from appliance.protocols.openai_stream import Fold, StreamEncoder, json_text
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

Events = list[tuple[int, Event]]

HEAD = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"demo",'


def answer(choices: int = 1, include_usage: bool = False) -> Answer:
    return Answer(id="chatcmpl-1", created=7, model="demo", choices=choices, include_usage=include_usage)


def chunk(rest: str) -> str:
    return f"data: {HEAD}{rest}}}\n\n"


def choice(index: int, delta: str, logprobs: str = "null", reason: str = "null") -> str:
    return f'"choices":[{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{reason}}}]'


ROLE = '{"role":"assistant","content":""}'
DONE = "data: [DONE]\n\n"
USAGE = (
    '"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,'
    '"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":0}}'
)
HELLO: Events = [
    (0, Started(5, 3)),
    (0, TextDelta("Hel")),
    (0, TextDelta("lo")),
    (0, Finished("stop", Usage(5, 2, 3))),
]
CALL: Events = [
    (0, Started(5, 0)),
    (0, ToolCallDelta(0, "call_1", "f", '{"a"')),
    (0, ToolCallDelta(0, arguments=":1}")),
    (0, ToolCallDelta(1, "call_2", "g")),
    (0, Finished("tool_calls", Usage(5, 9))),
]
TWO: Events = [
    (1, Started(5, 5)),
    (1, TextDelta("b")),
    (0, Started(5, 3)),
    (0, TextDelta("a")),
    (1, Finished("length", Usage(5, 1, 5))),
    (0, Finished("stop", Usage(5, 1, 3))),
]
SPOKEN = TokenLogprob(
    "é", -0.5, "é".encode(), (TopToken("é", -0.5, "é".encode()), TopToken("x", -float("inf"), b"x"))
)
LOGPROBS: Events = [
    (0, Started(5, 0)),
    (0, TextDelta("é", (SPOKEN,))),
    (0, Finished("stop", Usage(5, 1))),
]
SPOKEN_JSON = (
    '{"content":[{"token":"é","logprob":-0.5,"bytes":[195,169],"top_logprobs":['
    '{"token":"é","logprob":-0.5,"bytes":[195,169]},{"token":"x","logprob":-9999.0,"bytes":[120]}]}],"refusal":null}'
)

STREAMS: dict[str, tuple[Answer, Events, list[str]]] = {
    "a text": (
        answer(),
        HELLO,
        [
            chunk(choice(0, ROLE)),
            chunk(choice(0, '{"content":"Hel"}')),
            chunk(choice(0, '{"content":"lo"}')),
            chunk(choice(0, "{}", reason='"stop"')),
            DONE,
        ],
    ),
    "usage comes last and is null before": (
        answer(include_usage=True),
        HELLO,
        [
            chunk(choice(0, ROLE) + ',"usage":null'),
            chunk(choice(0, '{"content":"Hel"}') + ',"usage":null'),
            chunk(choice(0, '{"content":"lo"}') + ',"usage":null'),
            chunk(choice(0, "{}", reason='"stop"') + ',"usage":null'),
            chunk('"choices":[],' + USAGE),
            DONE,
        ],
    ),
    "two choices appear in order, whichever speaks first": (
        answer(choices=2),
        TWO,
        [
            chunk(choice(0, ROLE)),
            chunk(choice(1, ROLE)),
            chunk(choice(1, '{"content":"b"}')),
            chunk(choice(0, '{"content":"a"}')),
            chunk(choice(1, "{}", reason='"length"')),
            chunk(choice(0, "{}", reason='"stop"')),
            DONE,
        ],
    ),
    "reasoning": (
        answer(),
        [(0, Started(5, 0)), (0, ReasoningDelta("hm", (SPOKEN,))), (0, Finished("stop", Usage(5, 1, 0, 1)))],
        [
            chunk(choice(0, ROLE)),
            chunk(choice(0, '{"reasoning_content":"hm","reasoning":"hm"}')),
            chunk(choice(0, "{}", reason='"stop"')),
            DONE,
        ],
    ),
    "a call names itself once": (
        answer(),
        CALL,
        [
            chunk(choice(0, ROLE)),
            chunk(
                choice(
                    0,
                    '{"tool_calls":[{"index":0,"id":"call_1","type":"function",'
                    '"function":{"name":"f","arguments":""}}]}',
                )
            ),
            chunk(choice(0, '{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\""}}]}')),
            chunk(choice(0, '{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}')),
            chunk(
                choice(
                    0,
                    '{"tool_calls":[{"index":1,"id":"call_2","type":"function",'
                    '"function":{"name":"g","arguments":""}}]}',
                )
            ),
            chunk(choice(0, "{}", reason='"tool_calls"')),
            DONE,
        ],
    ),
    "log-probabilities": (
        answer(),
        LOGPROBS,
        [
            chunk(choice(0, ROLE)),
            chunk(choice(0, '{"content":"é"}', SPOKEN_JSON)),
            chunk(choice(0, "{}", reason='"stop"')),
            DONE,
        ],
    ),
    "an answer without a token": (
        answer(),
        [(0, Started(5, 0)), (0, Finished("stop", Usage(5, 1)))],
        [chunk(choice(0, ROLE)), chunk(choice(0, "{}", reason='"stop"')), DONE],
    ),
}


def encode(answer: Answer, events: Events) -> str:
    encoder = StreamEncoder(answer)
    return (b"".join(encoder.feed(index, event) for index, event in events) + encoder.close()).decode()


@pytest.mark.parametrize(("of", "events", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_events_become_chunks(of: Answer, events: Events, expected: list[str]) -> None:
    assert encode(of, events).split("\n\n") == "".join(expected).split("\n\n")


MESSAGES: dict[str, tuple[Events, dict[str, Any], str]] = {
    "a text": (HELLO, {"role": "assistant", "content": "Hello", "refusal": None}, "stop"),
    "no text": ([(0, Finished("length", Usage(5, 1)))], {"role": "assistant", "content": "", "refusal": None},
                "length"),
    "reasoning": (
        [(0, ReasoningDelta("h")), (0, ReasoningDelta("m")), (0, TextDelta("4")), (0, Finished("stop", Usage(5, 3)))],
        {"role": "assistant", "content": "4", "reasoning_content": "hm", "reasoning": "hm", "refusal": None}, "stop"),
    "calls": (
        CALL,
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        "tool_calls"),
}  # fmt: skip


@pytest.mark.parametrize(("events", "message", "reason"), MESSAGES.values(), ids=MESSAGES.keys())
def test_events_fold_into_a_message(events: Events, message: dict[str, Any], reason: str) -> None:
    (choice,) = fold(answer(), events)["choices"]
    assert choice == {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}


def test_the_prompt_of_several_choices_counts_once() -> None:
    whole = fold(answer(choices=2), TWO)
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["a", "b"]
    assert whole["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_the_whole_answer_holds_the_streams_log_probabilities() -> None:
    (choice,) = fold(answer(), LOGPROBS, logprobs=True)["choices"]
    assert choice["logprobs"] == json.loads(SPOKEN_JSON)


def test_the_whole_answer_is_the_stream_folded() -> None:
    for events in (HELLO, TWO, CALL, LOGPROBS):
        chunks = [json.loads(line[6:]) for line in encode(answer(2), events).split("\n\n")[:-2]]
        for choice in fold(answer(2), events)["choices"]:
            deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"][0]["index"] == choice["index"]]
            assert "".join(delta.get("content") or "" for delta in deltas) == (choice["message"]["content"] or "")


def test_a_client_that_offered_functions_is_told_of_a_call_in_their_form() -> None:
    form = CallForm(functions=True)
    encoder, kept = StreamEncoder(answer(), form), Fold(answer(), form)
    events: Events = [*CALL[:3], CALL[-1]]
    sent = b"".join(encoder.feed(index, event) for index, event in events) + encoder.close()
    for index, event in events:
        kept.feed(index, event)
    assert sent.decode() == "".join(
        [
            chunk(choice(0, ROLE)),
            chunk(choice(0, '{"function_call":{"name":"f","arguments":""}}')),
            chunk(choice(0, '{"function_call":{"arguments":"{\\"a\\""}}')),
            chunk(choice(0, '{"function_call":{"arguments":":1}"}}')),
            chunk(choice(0, "{}", reason='"function_call"')),
            DONE,
        ]
    )
    (whole,) = json.loads(kept.body())["choices"]
    assert whole["finish_reason"] == "function_call"
    assert whole["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "function_call": {"name": "f", "arguments": '{"a":1}'},
    }


def test_the_text_of_a_custom_tool_is_said_when_it_is_whole() -> None:
    form = CallForm(custom=frozenset({"p"}))
    encoder, kept = StreamEncoder(answer(), form), Fold(answer(), form)
    events: Events = [
        (0, Started(5, 3)),
        (0, ToolCallDelta(0, "c1", "p", '{"input": "a')), (0, ToolCallDelta(0, arguments='\\n"}')),
        (0, ToolCallDelta(1, "c2", "f", "{}")), (0, ToolCallDelta(2, "c3", "p", '{"input": ""}')),
        (0, ToolCallDelta(3, "c4", "p", '{"input": "b"}')), (0, Finished("tool_calls", Usage(5, 1, 3))),
    ]  # fmt: skip
    sent = b"".join(encoder.feed(index, event) for index, event in events) + encoder.close()
    for index, event in events:
        kept.feed(index, event)
    pieces = [
        '{"index":0,"id":"c1","type":"custom","custom":{"name":"p","input":""}}',
        '{"index":0,"custom":{"input":"a\\n"}}',
        '{"index":1,"id":"c2","type":"function","function":{"name":"f","arguments":""}}',
        '{"index":1,"function":{"arguments":"{}"}}',
        '{"index":2,"id":"c3","type":"custom","custom":{"name":"p","input":""}}',
        '{"index":3,"id":"c4","type":"custom","custom":{"name":"p","input":""}}',
        '{"index":3,"custom":{"input":"b"}}',
    ]
    said = [chunk(choice(0, f'{{"tool_calls":[{piece}]}}')) for piece in pieces]
    assert sent.decode() == "".join(
        [chunk(choice(0, ROLE)), *said, chunk(choice(0, "{}", reason='"tool_calls"')), DONE]
    )
    (whole,) = json.loads(kept.body())["choices"]
    assert whole["message"]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "p", "input": "a\n"}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c3", "type": "custom", "custom": {"name": "p", "input": ""}},
        {"id": "c4", "type": "custom", "custom": {"name": "p", "input": "b"}},
    ]


def test_a_stream_that_fails_says_so() -> None:
    encoder = StreamEncoder(answer())
    encoder.feed(0, Started(5, 0))
    assert encoder.error(EngineDied("the engine of demo ended")).decode() == (
        'data: {"error":{"message":"the engine of demo ended","type":"server_error","param":null,'
        '"code":"engine_died"}}\n\n'
    )


def test_a_stream_can_fail_before_it_began() -> None:
    assert b'"error"' in StreamEncoder(answer()).error(Unavailable("loading"))


LINES: dict[str, tuple[str, bytes]] = {
    "ASCII": ('a"\n\\', b'"a\\"\\n\\\\"'),
    "control characters": ("\x00\x1e", b'"\\u0000\\u001e"'),
    "other scripts": ("é😀", '"é😀"'.encode()),
    "line ends of Unicode": ("a\u2028b\u2029c\x85", b'"a\\u2028b\\u2029c\\u0085"'),
    "a neighbour of a line end": ("\u2026", '"\u2026"'.encode()),
}


@pytest.mark.parametrize(("text", "encoded"), LINES.values(), ids=LINES.keys())
def test_text_stays_on_one_line_for_every_reader(text: str, encoded: bytes) -> None:
    assert json_text(text) == encoded
    assert len(encoded.decode().splitlines()) == 1
    assert json.loads(encoded) == text


def fold(answer: Answer, events: Events, logprobs: bool = False) -> dict[str, Any]:
    kept = Fold(answer, logprobs=logprobs)
    for index, event in events:
        kept.feed(index, event)
    whole: dict[str, Any] = json.loads(kept.body())
    return whole
