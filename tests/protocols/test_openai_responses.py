"""What a responses body asks for, and the bytes of its answer."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest, Cancelled, EngineDied, UnknownPrevious, Unsupported
from appliance.protocols.adapter import Answer
from appliance.protocols.openai_responses import decode, read
from appliance.protocols.responses_stream import Kept, ResponseStream
from appliance.vocab.event import (
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from appliance.vocab.request import Grammar, Message, SamplingPatch, Tool, ToolCall

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True, "description": "d"}
CUSTOM = {"type": "custom", "name": "patch", "description": "Edit.", "format": {
          "type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}  # fmt: skip
SPACE = {
    "type": "namespace",
    "name": "mcp__box__",
    "description": "",
    "tools": [{"type": "function", "name": "open"}],
}
KEPT = Kept({"id": "resp_0"}, [], (Message(role="user", content="first"), Message(role="assistant", content="1")), 9)


def recall(id: str) -> Kept | None:
    return KEPT if id == "resp_0" else None


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "input": "hi", **fields}).encode()


def item(**fields: Any) -> bytes:
    return body(input=[fields])


HI = Message(role="user", content="hi")
CALLED = ToolCall(id="call_1", name="f", arguments='{"a": 1}')
TURNS: dict[str, tuple[dict[str, Any], tuple[Message, ...]]] = {
    "a string": ({}, (HI,)),
    "instructions": ({"instructions": "be brief"}, (Message(role="system", content="be brief"), HI)),
    "a message without type": ({"input": [{"role": "user", "content": "hi"}]}, (HI,)),
    "parts": ({"input": [{"type": "message", "role": "user", "content": [
               {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]},
              (Message(role="user", content="a\nb"),)),
    "a developer behind instructions": (
        {"instructions": "a", "input": [{"role": "developer", "content": "b"}, {"role": "user", "content": "hi"}]},
        (Message(role="system", content="a\nb"), HI)),
    "output that comes back": (
        {"input": [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}],
             "encrypted_content": None},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
             {"type": "output_text", "text": "I will", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "4"}]},
        (HI, Message(role="assistant", content="I will", reasoning="hm", tool_calls=(CALLED,)),
         Message(role="tool", content="4", tool_call_id="call_1"))),
    "a custom tool's call": (
        {"input": [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x\n"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]}]},
        (Message(role="assistant", tool_calls=(ToolCall(id="c", name="patch", arguments='{"input":"x\\n"}'),)),
         Message(role="tool", content="ok", tool_call_id="c"))),
    "a call in a namespace": (
        {"input": [{"type": "function_call", "call_id": "c", "namespace": "mcp__box__", "name": "open",
                    "arguments": "{}"}]},
        (Message(role="assistant", tool_calls=(ToolCall(id="c", name="mcp__box__open", arguments="{}"),)),)),
    "what hosted tools left": ({"input": [{"type": "web_search_call", "id": "ws"}, {"role": "user",
                                                                                     "content": "hi"}]}, (HI,)),
    "a response to go on from": ({"previous_response_id": "resp_0", "instructions": "be brief"},
                                 (Message(role="system", content="be brief"), *KEPT.history, HI)),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "messages"), TURNS.values(), ids=TURNS.keys())
def test_items_become_turns(fields: dict[str, Any], messages: tuple[Message, ...]) -> None:
    assert decode(body(**fields), recall).messages == messages


BAD: dict[str, tuple[bytes, str, str]] = {
    "no input": (b'{"model": "demo"}', "input", "required"),
    "no items": (body(input=[]), "input", "at least one"),
    "an item that is none": (body(input=["hi"]), "input[0]", "expected"),
    "an unknown role": (item(role="robot", content=""), "input[0].role", "must be user"),
    "no content": (item(role="user"), "input[0].content", "required"),
    "an unknown part": (item(role="user", content=[{"type": "smell"}]), "input[0].content[0].type", "must be one of"),
    "a call without name": (item(type="function_call", call_id="c", arguments=""), "input[0].name", "required"),
    "a result without id": (item(type="function_call_output", output="4"), "input[0].call_id", "required"),
    "arguments an object": (item(type="function_call", call_id="c", name="f", arguments={}), "input[0].arguments",
                            "expected a string or null, got an object"),
    "temperature 3": (body(temperature=3), "temperature", "from 0 to 2"),
    "max_output_tokens 0": (body(max_output_tokens=0), "max_output_tokens", "at least 1"),
    "a form without a schema": (body(text={"format": {"type": "json_schema"}}), "text.format.schema", "required"),
    "a form that is none": (body(text={"format": {"type": "x"}}), "text.format.type", "json_schema"),
    "a tool without name": (body(tools=[{"type": "function"}]), "tools[0].name", "letters"),
    "a tool twice": (body(tools=[FUNCTION, FUNCTION]), "tools[1].name", "too"),
    "a bad schema": (body(tools=[{**FUNCTION, "parameters": {"type": "array"}}]), "tools[0].parameters.type",
                     "'object'"),
    "an unknown choice": (body(tools=[FUNCTION], tool_choice={"type": "web_search"}), "tool_choice", "must be"),
    "a choice of nothing": (body(tools=[FUNCTION], tool_choice={"type": "function", "name": "g"}), "tool_choice",
                            "'g'"),
    "an item nobody keeps": (item(type="item_reference", id="msg_1"), "input[0].id", "no item 'msg_1'"),
    "a reference to nothing": (item(type="item_reference"), "input[0].id", "required"),
    "two forms": (body(guided_regex="a", text={"format": {"type": "json_object"}}), "guided_regex", "both"),
    "truncation unknown": (body(truncation="some"), "truncation", "'auto'"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "param", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_a_400_that_names_the_place(sent: bytes, param: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(sent, recall)
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


REFUSED: dict[str, tuple[bytes, str]] = {
    "an image": (
        item(role="user", content=[{"type": "input_image", "image_url": ""}]),
        "input[0].content[0].image_url",
    ),
    "a file": (item(role="user", content=[{"type": "input_file"}]), "input[0].content[0]"),
    "an unknown item": (item(type="compaction", encrypted_content="x"), "input[0].type"),
    "a hosted tool": (body(tools=[{"type": "file_search", "vector_store_ids": []}]), "tools"),
    "a shell": (body(tools=[{"type": "local_shell"}]), "tools"),
    "a conversation": (body(conversation="conv_1"), "conversation"),
}


@pytest.mark.parametrize(("sent", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_honoured_is_refused_by_name(sent: bytes, param: str) -> None:
    with pytest.raises(Unsupported) as caught:
        decode(sent, recall)
    assert (caught.value.param, param in caught.value.message) == (param, True)


def test_a_response_that_is_not_kept_cannot_be_gone_on_from() -> None:
    with pytest.raises(UnknownPrevious) as caught:
        decode(body(previous_response_id="resp_9"), recall)
    assert (caught.value.status, caught.value.param) == (400, "previous_response_id")


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sampling": ({"temperature": 0.5, "max_output_tokens": 7, "top_k": 3},
                 {"sampling": SamplingPatch(temperature=0.5, max_tokens=7, top_k=3)}),
    "a function": ({"tools": [FUNCTION]}, {"tools": (
                   Tool(name="f", description="d", parameters={"type": "object"}, strict=True),)}),
    "a custom tool": ({"tools": [CUSTOM]}, {"tools": (Tool(
        name="patch", description="Edit.\n\nThe form of `input`:\nstart: /.+/",
        parameters={"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]},
        grammar="start: /.+/"),)}),
    "a namespace": ({"tools": [SPACE]}, {"tools": (Tool(name="mcp__box__open"),)}),
    "a hosted tool is left out by name": ({"tools": [{"type": "web_search"}]},
                                          {"tools": (), "ignored": ("tools[0]:web_search",)}),
    "some tools are shown": (
        {"tools": [FUNCTION, CUSTOM], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
         {"type": "function", "name": "f"}]}},
        {"tools": (Tool(name="f", description="d", parameters={"type": "object"}, strict=True),)}),
    "one call at most": ({"parallel_tool_calls": False}, {"parallel_calls": False}),
    "a form": ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}},
               {"grammar": Grammar("json_schema", '{"type": "object"}', "text.format.schema")}),
    "a form under vLLM's name": ({"structured_outputs": {"regex": "a+"}},
                                 {"grammar": Grammar("regex", "a+", "structured_outputs.regex"), "ignored": ()}),
    "any object": ({"text": {"format": {"type": "json_object"}}},
                   {"grammar": Grammar("json_object", "", "text.format")}),
    "an effort": ({"reasoning": {"effort": "low", "summary": "auto"}}, {"template": {"reasoning_effort": "low"}}),
    "log-probabilities": ({"include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"logprobs": 2}),
    "top_logprobs that are not included": ({"top_logprobs": 2}, {"logprobs": None}),
    "what agents send along": ({"prompt_cache_key": "k", "client_metadata": {}, "include": [
                                "reasoning.encrypted_content"], "service_tier": "auto", "text": {"verbosity": "low"},
                                "metadata": {"a": "b"}, "truncation": "auto"}, {"ignored": ()}),
    "unknown fields": ({"flavour": 1}, {"ignored": ("flavour",)}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_a_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode(body(**fields), recall)
    assert {name: getattr(request, name) for name in expected} == expected


def stream(**fields: Any) -> ResponseStream:
    encoder = read(body(**fields), recall).stream(Answer("resp_ab", 7, "demo"))
    assert isinstance(encoder, ResponseStream)
    return encoder


def said(sent: bytes) -> list[dict[str, Any]]:
    """The events of a stream; each has its name twice and the next number."""
    events = []
    for number, chunk in enumerate(sent.decode().split("\n\n")[:-1]):
        name, data = chunk.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event.pop('type')}"
        assert event.pop("sequence_number") == number
        events.append({"type": name.removeprefix("event: "), **event})
    return events


MESSAGE_ADDED = {"id": "msg_ab0", "type": "message", "status": "in_progress", "role": "assistant", "content": []}


def output_text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **more}


AT = {"item_id": "msg_ab0", "output_index": 0}
TEXT: tuple[list[Event], list[dict[str, Any]]] = (
    [Started(5, 3), TextDelta("Hel\u2028"), TextDelta("lo"), Finished("stop", Usage(5, 2, 3))],
    [
        {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE_ADDED},
        {"type": "response.content_part.added", **AT, "content_index": 0, "part": output_text("")},
        {"type": "response.output_text.delta", **AT, "content_index": 0, "delta": "Hel\u2028", "logprobs": []},
        {"type": "response.output_text.delta", **AT, "content_index": 0, "delta": "lo", "logprobs": []},
        {"type": "response.output_text.done", **AT, "content_index": 0, "text": "Hel\u2028lo", "logprobs": []},
        {"type": "response.content_part.done", **AT, "content_index": 0, "part": output_text("Hel\u2028lo")},
        {"type": "response.output_item.done", "output_index": 0,
         "item": {**MESSAGE_ADDED, "status": "completed", "content": [output_text("Hel\u2028lo")]}},
    ],
)  # fmt: skip


def called(kind: str, at: int, number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"{kind}_ab{at}", "status": "in_progress", "call_id": f"call_{number}", **more}


THOUGHT_ADDED = {"id": "rs_ab0", "type": "reasoning", "status": "in_progress", "summary": [], "content": []}
THOUGHT = {"type": "reasoning_text", "text": "hm"}
F_ADDED = called("fc", 1, 1, type="function_call", name="f", arguments="")
OPEN_ADDED = called("fc", 2, 2, type="function_call", name="open", namespace="mcp__box__", arguments="")
PATCH_ADDED = called("ctc", 3, 3, type="custom_tool_call", name="patch", input="")
CALLS: tuple[list[Event], list[dict[str, Any]]] = (
    [Started(5, 0), ReasoningDelta("hm"), ToolCallDelta(0, "call_1", "f", '{"a"'), ToolCallDelta(0, arguments=":1}"),
     ToolCallDelta(1, "call_2", "mcp__box__open"), ToolCallDelta(2, "call_3", "patch", '{"input": "x\\n"}'),
     Finished("tool_calls", Usage(5, 9, 0, 2))],
    [
        {"type": "response.output_item.added", "output_index": 0, "item": THOUGHT_ADDED},
        {"type": "response.content_part.added", "item_id": "rs_ab0", "output_index": 0, "content_index": 0,
         "part": {**THOUGHT, "text": ""}},
        {"type": "response.reasoning_text.delta", "item_id": "rs_ab0", "output_index": 0, "content_index": 0,
         "delta": "hm"},
        {"type": "response.reasoning_text.done", "item_id": "rs_ab0", "output_index": 0, "content_index": 0,
         "text": "hm"},
        {"type": "response.content_part.done", "item_id": "rs_ab0", "output_index": 0, "content_index": 0,
         "part": THOUGHT},
        {"type": "response.output_item.done", "output_index": 0,
         "item": {**THOUGHT_ADDED, "status": "completed", "content": [THOUGHT]}},
        {"type": "response.output_item.added", "output_index": 1, "item": F_ADDED},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_ab1", "output_index": 1, "delta": '{"a"'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_ab1", "output_index": 1, "delta": ":1}"},
        {"type": "response.function_call_arguments.done", "item_id": "fc_ab1", "output_index": 1, "name": "f",
         "arguments": '{"a":1}'},
        {"type": "response.output_item.done", "output_index": 1,
         "item": {**F_ADDED, "status": "completed", "arguments": '{"a":1}'}},
        {"type": "response.output_item.added", "output_index": 2, "item": OPEN_ADDED},
        {"type": "response.function_call_arguments.done", "item_id": "fc_ab2", "output_index": 2, "name": "open",
         "arguments": ""},
        {"type": "response.output_item.done", "output_index": 2, "item": {**OPEN_ADDED, "status": "completed"}},
        {"type": "response.output_item.added", "output_index": 3, "item": PATCH_ADDED},
        {"type": "response.custom_tool_call_input.delta", "item_id": "ctc_ab3", "output_index": 3, "delta": "x\n"},
        {"type": "response.custom_tool_call_input.done", "item_id": "ctc_ab3", "output_index": 3, "input": "x\n"},
        {"type": "response.output_item.done", "output_index": 3,
         "item": {**PATCH_ADDED, "status": "completed", "input": "x\n"}},
    ],
)  # fmt: skip
STREAMS = {"a text": TEXT, "thoughts and calls": CALLS}


@pytest.mark.parametrize(("events", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_events_become_items_that_fold_to_the_whole(events: list[Event], expected: list[dict[str, Any]]) -> None:
    encoder = stream(tools=[FUNCTION, CUSTOM, SPACE])
    sent = said(b"".join(encoder.feed(0, event) for event in events) + encoder.close())
    created, progress, *middle, last = sent
    assert [created["type"], progress["type"], last["type"]] == [
        "response.created", "response.in_progress", "response.completed",
    ]  # fmt: skip
    assert (created["response"]["status"], created["response"]["output"]) == ("in_progress", [])
    assert middle == expected
    assert last["response"] == json.loads(encoder.body())
    assert last["response"]["output"] == [
        event["item"] for event in expected if event["type"] == "response.output_item.done"
    ]


def test_the_object_has_every_key_and_repeats_what_was_sent() -> None:
    encoder = stream(metadata={"a": "b"}, temperature=0.5, tools=[FUNCTION], instructions="be brief", store=False)
    encoder.feed(0, Finished("stop", Usage(5, 9, 3, 2)))
    assert json.loads(encoder.body()) == {
        "id": "resp_ab", "object": "response", "created_at": 7, "completed_at": 7, "status": "completed",
        "error": None, "incomplete_details": None, "model": "demo", "output": [], "background": False,
        "service_tier": "default", "instructions": "be brief", "max_output_tokens": None, "metadata": {"a": "b"},
        "parallel_tool_calls": True, "previous_response_id": None, "reasoning": {"effort": None, "summary": None},
        "store": False, "temperature": 0.5, "text": {"format": {"type": "text"}}, "tool_choice": "auto",
        "tools": [FUNCTION], "top_p": None, "top_logprobs": 0, "truncation": "disabled", "user": None,
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
                  "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 14},
    }  # fmt: skip
    assert encoder.kept() is None


def test_a_cut_answer_is_incomplete() -> None:
    encoder = stream()
    sent = b"".join(encoder.feed(0, e) for e in (Started(5, 0), TextDelta("a"), Finished("length", Usage(5, 1))))
    *_, last = said(sent + encoder.close())
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        pytest.param(EngineDied("gone"), "failed", "server_error", id="an engine's death"),
        pytest.param(Cancelled("enough"), "cancelled", "cancelled", id="a cancellation"),
    ],
)
def test_a_stream_that_fails_says_so_and_is_kept(error: Any, status: str, code: str) -> None:
    encoder = stream()
    sent = encoder.feed(0, Started(5, 0)) + encoder.feed(0, TextDelta("a")) + encoder.error(error)
    *_, done, last = said(sent)
    assert (done["item"]["status"], last["type"]) == ("incomplete", "response.failed")
    response = last["response"]
    assert (response["status"], response["error"]) == (status, {"code": code, "message": error.message})
    kept = encoder.kept()
    assert kept is not None
    assert kept.response == response


def test_a_heartbeat_is_an_event_and_begins_what_has_not_begun() -> None:
    encoder = stream()
    sent = encoder.heartbeat() + encoder.heartbeat() + encoder.feed(0, Started(5, 0))
    assert [event["type"] for event in said(sent)] == [
        "response.created", "response.in_progress", "response.in_progress",
    ]  # fmt: skip


def test_log_probabilities_are_part_of_the_text() -> None:
    encoder = stream(include=["message.output_text.logprobs"])
    encoder.feed(0, TextDelta("é", (TokenLogprob("é", -0.5, "é".encode()),)))
    encoder.feed(0, Finished("stop", Usage(5, 1)))
    (message,) = json.loads(encoder.body())["output"]
    assert message["content"][0]["logprobs"] == [
        {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []}
    ]


def test_what_is_kept_can_be_gone_on_from() -> None:
    encoder = stream(tools=[FUNCTION], instructions="not kept", previous_response_id="resp_0")
    for event in CALLS[0][:4]:
        encoder.feed(0, event)
    encoder.feed(0, Finished("tool_calls", Usage(5, 9)))
    kept = encoder.kept()
    assert kept is not None
    assert kept.history == (
        *KEPT.history, HI, Message(role="assistant", reasoning="hm"),
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="f", arguments='{"a":1}'),)),
    )  # fmt: skip
    assert [(one["id"], one["role"]) for one in kept.items] == [("msg_abi0", "user")]
