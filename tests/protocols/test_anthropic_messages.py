"""What a messages body asks for, and the bytes of its answer."""

import json
from typing import Any

import pytest

from appliance.errors import ApplianceError, BadRequest, EngineDied, Overloaded, PromptTooLong, Unsupported
from appliance.protocols.adapter import Answer
from appliance.protocols.anthropic_messages import decode, decode_count
from appliance.protocols.anthropic_stream import MessageStream
from appliance.protocols.errors import anthropic, anthropic_error, shape_of
from appliance.vocab.event import Event, Finished, ReasoningDelta, Started, TextDelta, ToolCallDelta, Usage
from appliance.vocab.request import Grammar, Message, SamplingPatch, Tool, ToolCall

USER = {"role": "user", "content": "hi"}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "max_tokens": 9, "messages": [USER], **fields}).encode()


def said(*turns: dict[str, Any], **fields: Any) -> bytes:
    return body(messages=list(turns), **fields)


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


MARKED = Tool(name="f", description="d", parameters={"type": "object"}, mark=True)
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": "é"}}
CALLED = ToolCall(id="toolu_1", name="f", arguments='{"a":"é"}')
USED = Message(role="user", content="use f")


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


TURNS: dict[str, tuple[bytes, tuple[Message, ...]]] = {
    "text": (body(), (Message(role="user", content="hi"),)),
    "blocks": (said({"role": "user", "content": [text("a", cache_control={"type": "ephemeral"}), text("b")]}),
               (Message(role="user", content="a\nb", mark=True),)),
    "a system string": (body(system="be brief"), (Message(role="system", content="be brief"),
                                                  Message(role="user", content="hi"))),
    "system blocks, without what counts requests": (
        body(system=[text("x-anthropic-billing-header: cch=1"), text("a"), text("b")]),
        (Message(role="system", content="a\nb"), Message(role="user", content="hi"))),
    "a system message first": (said({"role": "system", "content": "b"}, USER, system="a"),
                               (Message(role="system", content="a\nb"), Message(role="user", content="hi"))),
    "a system message in the middle": (
        said(USER, {"role": "system", "content": "be brief"}, {"role": "assistant", "content": "ok"}, USER),
        (Message(role="user", content="hi\n<system>\nbe brief\n</system>"), Message(role="assistant", content="ok"),
         Message(role="user", content="hi"))),
    "turns of one role": (said(USER, {"role": "user", "content": "there"}),
                          (Message(role="user", content="hi\nthere"),)),
    "thoughts and a call": (
        said(USER, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "redacted_thinking", "data": "x"},
            text("I will"), CALL]}, USER),
        (Message(role="user", content="hi"),
         Message(role="assistant", content="I will", reasoning="hm", tool_calls=(CALLED,)),
         Message(role="user", content="hi"))),
    "a call alone": (
        said(USER, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result("4")]}),
        (Message(role="user", content="hi"), Message(role="assistant", tool_calls=(CALLED,)),
         Message(role="tool", content="4", tool_call_id="toolu_1"))),
    "results and a word": (
        said({"role": "user", "content": [text("so"), result([text("a"), text("b")]), result("", is_error=True)]}),
        (Message(role="tool", content="a\nb", tool_call_id="toolu_1"),
         Message(role="tool", content="Error: ", tool_call_id="toolu_1"), Message(role="user", content="so"))),
    "a result of nothing": (said({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}),
                            (Message(role="tool", content="", tool_call_id="t"),)),
    "a tool that was looked for": (
        said({"role": "user", "content": [result([{"type": "tool_reference", "tool_name": "WebFetch"}])]}),
        (Message(role="tool", content="WebFetch can be called now", tool_call_id="toolu_1"),)),
    "what another server's tools left": (
        said(USER, {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [
                {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "x"}]},
            text("found")]}, USER),
        (Message(role="user", content="hi"), Message(role="assistant", content="found"),
         Message(role="user", content="hi"))),
    "a summary of what was before": (
        said({"role": "assistant", "content": [{"type": "compaction", "content": "so far"}]}, USER,
             {"role": "assistant", "content": [{"type": "compaction", "content": None}, text("yes")]}, USER),
        (Message(role="assistant", content="so far"), Message(role="user", content="hi"),
         Message(role="assistant", content="yes"), Message(role="user", content="hi"))),
    "a document of text": (
        said({"role": "user", "content": [{"type": "document", "title": "T", "source": {
              "type": "text", "media_type": "text/plain", "data": "words"}}]}),
        (Message(role="user", content="T\nwords"),)),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "messages"), TURNS.values(), ids=TURNS.keys())
def test_turns_become_ours(sent: bytes, messages: tuple[Message, ...]) -> None:
    assert decode(sent).messages == messages


def changed(kind: str, tool: dict[str, Any]) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}


def added(definition: dict[str, Any]) -> dict[str, Any]:
    return changed("tool_addition", {"type": "tool_definition", "definition": definition})


def named(name: str, kind: str = "tool_addition") -> dict[str, Any]:
    return changed(kind, {"type": "tool_reference", "name": name})


BAD: dict[str, tuple[bytes, str, str]] = {
    "no max_tokens": (b'{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}', "max_tokens",
                      "required"),
    "max_tokens 0": (body(max_tokens=0), "max_tokens", "at least 1"),
    "no messages": (body(messages=[]), "messages", "at least one"),
    "unknown role": (said({"role": "robot", "content": ""}), "messages[0].role", "user, assistant, system"),
    "content null": (said({"role": "user", "content": None}), "messages[0].content", "expected"),
    "a tool that nothing defines": (said(USER, named("g")), "messages[1].content[0].tool.name", "no tool 'g'"),
    "a change of no tool": (said(changed("tool_addition", {"type": "tool_reference"})),
                            "messages[0].content[0].tool.name", "required"),
    "a change without its tool": (said({"role": "user", "content": [{"type": "tool_removal"}]}),
                                  "messages[0].content[0].tool", "expected an object"),
    "a definition that is taken away": (
        said(changed("tool_removal", {"type": "tool_definition", "definition": {"name": "g"}})),
        "messages[0].content[0].tool.type", "'tool_reference'"),
    "unknown block": (said({"role": "user", "content": [{"type": "smell"}]}), "messages[0].content[0].type",
                      "'smell'"),
    "text without text": (said({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text",
                          "required"),
    "a call without id": (said(USER, {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}),
                          "messages[1].content[0].id", "required"),
    "a result without id": (said({"role": "user", "content": [{"type": "tool_result", "content": "4"}]}),
                            "messages[0].content[0].tool_use_id", "required"),
    "temperature 1.5": (body(temperature=1.5), "temperature", "from 0 to 1"),
    "stop_sequences a string": (body(stop_sequences="x"), "stop_sequences", "a list of strings"),
    "a form without a schema": (body(output_config={"format": {"type": "json_schema"}}),
                                "output_config.format.schema", "required"),
    "a tool without name": (body(tools=[{"input_schema": {}}]), "tools[0].name", "required"),
    "a tool twice": (body(tools=[TOOL, TOOL]), "tools[1].name", "too"),
    "a bad schema": (body(tools=[{"name": "f", "input_schema": {"type": "array"}}]), "tools[0].input_schema.type",
                     "'object'"),
    "a choice of nothing": (body(tools=[TOOL], tool_choice={"type": "tool", "name": "g"}), "tool_choice", "'g'"),
    "an unknown choice": (body(tools=[TOOL], tool_choice={"type": "perhaps"}), "tool_choice", "must be"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "param", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_a_400_that_names_the_place(sent: bytes, param: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(sent)
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


NEW = {"name": "g", "input_schema": {"type": "object"}}
CHANGES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "a tool that is there": ({"messages": [USER, named("f")]}, ["f"], "f can be called now"),
    "one that is defined on the way": ({"messages": [USER, added(NEW)]}, ["f", "g"], "g can be called now"),
    "one that is taken away": ({"messages": [USER, named("f", "tool_removal")]}, [], "f cannot be called any more"),
    "one that comes back": (
        {"messages": [USER, named("f", "tool_removal"), named("f")]}, ["f"], "any more\n</system>"),
    "one that is defined, taken away and comes back": (
        {"messages": [USER, added(NEW), named("g", "tool_removal"), named("g")]}, ["f", "g"], "g can be called now"),
    "one of another server": (
        {"messages": [USER, changed("tool_addition", {"type": "mcp_toolset_reference", "server_name": "s"})]},
        ["f"], "hi"),
    "a hosted one": ({"messages": [USER, added({"type": "web_search_20250305", "name": "web_search"})]}, ["f"], "hi"),
    "nothing but the text where nothing is told": (
        {"messages": [{"role": "user", "content": [
            {"type": "tool_removal", "tool": {"type": "mcp_tool_reference", "server_name": "s", "name": "x"}},
            text("so")]}]}, ["f"], "so"),
    "what a summary tells of": (
        {"messages": [{"role": "assistant", "content": [{"type": "compaction", "content": "so far", "tool_changes": [
            added(NEW)["content"][0], named("f", "tool_removal")["content"][0]]}]}, USER]}, ["g"], "so far"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "names", "told"), CHANGES.values(), ids=CHANGES.keys())
def test_tools_come_and_go_within_a_conversation(fields: dict[str, Any], names: list[str], told: str) -> None:
    request = decode(body(tools=[TOOL], **fields))
    assert [tool.name for tool in request.tools] == names
    contents = [message.content or "" for message in request.messages]
    assert told in "\n".join(contents)
    assert not any(content.startswith("\n") for content in contents)


def test_a_choice_may_be_of_a_tool_that_was_defined_on_the_way() -> None:
    (tool,) = decode(body(messages=[USER, added(NEW)], tool_choice={"type": "tool", "name": "g"})).tools
    assert (tool.name, tool.forced) == ("g", True)


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
REFUSED: dict[str, tuple[bytes, str]] = {
    "an image": (said({"role": "user", "content": [text("a"), IMAGE]}), "messages[0].content[1].source"),
    "an image in a result": (said({"role": "user", "content": [result([IMAGE])]}),
                             "messages[0].content[0].content[0].source"),
    "a document that is a file": (said({"role": "user", "content": [{"type": "document", "source": {
                                  "type": "base64"}}]}), "messages[0].content[0].source"),
    "a computer within a conversation": (said(added({"type": "computer_20250124", "name": "computer"})),
                                         "messages[0].content[0].tool.definition.type"),
    "a computer": (body(tools=[{"type": "computer_20250124", "name": "computer"}]), "tools[0].type"),
    "a tool of tomorrow": (body(tools=[{"type": "teleport_2030", "name": "x"}]), "tools[0].type"),
    "other servers": (body(mcp_servers=[{"type": "url"}]), "mcp_servers"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_honoured_is_refused_by_name(sent: bytes, param: str) -> None:
    with pytest.raises(Unsupported) as caught:
        decode(sent)
    assert (caught.value.param, param in caught.value.message) == (param, True)


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sampling": ({"temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"]},
                 {"sampling": SamplingPatch(max_tokens=9, temperature=0.5, top_p=0.9, top_k=40, stop=("END",))}),
    "extensions": ({"min_p": 0.1, "chat_template_kwargs": {"x": 1}},
                   {"sampling": SamplingPatch(max_tokens=9, min_p=0.1), "template": {"x": 1}}),
    "a tool": ({"tools": [TOOL]}, {"tools": (MARKED,)}),
    "a typed tool": ({"tools": [{"type": "custom", "name": "f", "input_schema": {}}]}, {"tools": (Tool(name="f"),)}),
    "no choice of tools": ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": ()}),
    "one call at most": ({"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
                         {"parallel_calls": False}),
    "a hosted tool is left out by name": ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
                                          {"tools": (), "ignored": ("tools[0]:web_search_20250305",)}),
    "thinking": ({"thinking": {"type": "enabled", "budget_tokens": 1024}},
                 {"template": {"enable_thinking": True},
                  "sampling": SamplingPatch(max_tokens=9, reasoning_budget=1024)}),
    "hidden thinking": ({"thinking": {"type": "adaptive", "display": "omitted"}},
                        {"template": {"enable_thinking": True},
                         "sampling": SamplingPatch(max_tokens=9, include_reasoning=False)}),
    "no thinking": ({"thinking": {"type": "disabled"}}, {"template": {"enable_thinking": False}}),
    "a form": ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
               {"grammar": Grammar("json_schema", '{"type": "object"}', "output_config.format.schema")}),
    "a form under vLLM's name": ({"guided_choice": ["a", "b"]},
                                 {"grammar": Grammar("choice", '["a", "b"]', "guided_choice"), "ignored": ()}),
    "a forced tool": ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": (
                      Tool(name="f", description="d", parameters={"type": "object"}, forced=True, mark=True),)}),
    "an effort": ({"output_config": {"effort": "low"}}, {"template": {"reasoning_effort": "low"}}),
    "what agents send along": (
        {"metadata": {"user_id": "u"}, "context_management": {}, "service_tier": "auto", "betas": ["x"]},
        {"ignored": ()}),
    "unknown fields": ({"flavour": 1}, {"ignored": ("flavour",)}),
    "a turn to continue": ({"messages": [USER, {"role": "assistant", "content": "It is"}]}, {"continue_final": True}),
    "a turn that is over": ({}, {"continue_final": False}),
    "a stream": ({"stream": True}, {"stream": True}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_a_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode(body(**fields))
    assert {name: getattr(request, name) for name in expected} == expected


def test_counting_needs_no_max_tokens() -> None:
    assert decode_count(b'{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}').messages


def event(kind: str, data: str = "") -> str:
    return f'event: {kind}\ndata: {{"type":"{kind}"{data and "," + data}}}\n\n'


def start(input_tokens: int, cached: int = 0) -> str:
    usage = f'"input_tokens":{input_tokens},"cache_creation_input_tokens":0,"cache_read_input_tokens":{cached}'
    return event(
        "message_start",
        '"message":{"id":"msg_1","type":"message","role":"assistant","model":"demo","content":[],'
        f'"stop_reason":null,"stop_sequence":null,"usage":{{{usage},"output_tokens":0}}}}',
    )


def end(reason: str, usage: str, stop: str = "null") -> str:
    delta = f'"delta":{{"stop_reason":"{reason}","stop_sequence":{stop}}}'
    return event("message_delta", f'{delta},"usage":{{{usage}}}') + event("message_stop")


def block(index: int, opening: str, *deltas: str) -> str:
    return (
        event("content_block_start", f'"index":{index},"content_block":{{{opening}}}')
        + "".join(event("content_block_delta", f'"index":{index},"delta":{{{delta}}}') for delta in deltas)
        + event("content_block_stop", f'"index":{index}')
    )


FIVE = '"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9'
OPEN_TEXT = '"type":"text","text":""'
STREAMS: dict[str, tuple[list[Event], str, list[dict[str, Any]]]] = {
    "a text": (
        [Started(5, 3), TextDelta("Hel\u2028"), TextDelta("lo"), Finished("stop", Usage(5, 2, 3))],
        start(2, 3)
        + block(0, OPEN_TEXT, '"type":"text_delta","text":"Hel\\u2028"', '"type":"text_delta","text":"lo"')
        + end("end_turn", '"input_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,'
              '"output_tokens":2'),
        [{"type": "text", "text": "Hel\u2028lo"}]),
    "a stop sequence": (
        [Started(5, 0), TextDelta("a"), Finished("stop", Usage(5, 9), "END")],
        start(5) + block(0, OPEN_TEXT, '"type":"text_delta","text":"a"') + end("stop_sequence", FIVE, '"END"'),
        [{"type": "text", "text": "a"}]),
    "thoughts, words and calls": (
        [Started(5, 0), ReasoningDelta("hm"), TextDelta("so"), ToolCallDelta(0, "call_1", "f", '{"a"'),
         ToolCallDelta(0, arguments=":1}"), ToolCallDelta(1, "call_2", "g"), Finished("tool_calls", Usage(5, 9))],
        start(5)
        + block(0, '"type":"thinking","thinking":"","signature":""', '"type":"thinking_delta","thinking":"hm"')
        + block(1, OPEN_TEXT, '"type":"text_delta","text":"so"')
        + block(2, '"type":"tool_use","id":"toolu_1","name":"f","input":{}',
                '"type":"input_json_delta","partial_json":"{\\"a\\""',
                '"type":"input_json_delta","partial_json":":1}"')
        + block(3, '"type":"tool_use","id":"toolu_2","name":"g","input":{}')
        + end("tool_use", FIVE),
        [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "so"},
         {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
         {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}}]),
    "nothing": (
        [Started(5, 0), Finished("length", Usage(5, 9))], start(5) + end("max_tokens", FIVE), []),
}  # fmt: skip


@pytest.mark.parametrize(("events", "stream", "content"), STREAMS.values(), ids=STREAMS.keys())
def test_events_become_blocks_that_fold_to_the_whole(
    events: list[Event], stream: str, content: list[dict[str, Any]]
) -> None:
    encoder = MessageStream(Answer("msg_1", 7, "demo"))
    sent = b"".join(encoder.feed(0, event) for event in events) + encoder.close()
    assert sent.decode().split("\n\n") == stream.split("\n\n")
    whole = json.loads(encoder.body())
    assert whole["content"] == content
    last = json.loads(stream.split("\n\n")[-3].partition("data: ")[2])
    assert {name: whole[name] for name in ("stop_reason", "stop_sequence")} == last["delta"]
    assert whole["usage"] == last["usage"]


ERRORS: dict[str, tuple[ApplianceError, dict[str, str]]] = {
    "a bad field": (BadRequest("no"), {"type": "invalid_request_error", "message": "no"}),
    "too much to do": (Overloaded("no"), {"type": "rate_limit_error", "message": "no"}),
    "an engine's death": (EngineDied("no"), {"type": "api_error", "message": "no"}),
    "a prompt that is too long": (
        PromptTooLong(
            "This model's maximum context length is 64 tokens. However, your prompt resulted in 70 tokens."
        ),
        {"type": "invalid_request_error", "message": "prompt is too long: 70 tokens > 64 maximum"},
    ),
}


@pytest.mark.parametrize(("error", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_are_said_in_anthropics_words(error: ApplianceError, expected: dict[str, str]) -> None:
    assert anthropic_error(error) == expected
    assert json.loads(anthropic(error, "req_1")) == {"type": "error", "error": expected, "request_id": "req_1"}
    stream = MessageStream(Answer("msg_1", 7, "demo"))
    assert stream.error(error).decode().startswith('event: error\ndata: {"type":"error","error":{"type":')


def test_the_shape_is_that_of_the_path_or_of_the_clients_header() -> None:
    assert shape_of("/v1/messages/count_tokens", {}) is anthropic
    assert shape_of("/v1/models/x", {"anthropic-version": "2023-06-01"}) is anthropic
    assert shape_of("/v1/models/x", {}) is not anthropic


@pytest.mark.parametrize(
    ("turns", "marks"),
    [
        pytest.param([("user", "plain", False)], [False], id="none"),
        pytest.param(
            [("user", "a", True), ("assistant", "b", False), ("user", "c", False)], [True, False, False], id="one"
        ),
        pytest.param([("user", "a", False), ("user", "b", True)], [True], id="of the later of two that are one turn"),
    ],
)
def test_a_cache_control_marks_the_turn_behind_which_conversations_may_part(turns, marks):
    messages = [
        {
            "role": role,
            "content": [{"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if mark else {})}],
        }
        for role, text, mark in turns
    ]
    asked = decode(json.dumps({"model": "m", "max_tokens": 5, "messages": messages}).encode())
    assert [message.mark for message in asked.messages] == marks


CACHED = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("more", "parts", "marks"),
    [
        pytest.param({"system": [text("ab", **CACHED), text("c")]}, (2,), [False, False], id="a block of the system"),
        pytest.param({"system": [text("ab"), text("c", **CACHED)]}, (4,), [False, False], id="the last of them"),
        pytest.param(
            {"system": [text("ab", **CACHED)],
             "messages": [{"role": "system", "content": [text("c", **CACHED)]}, USER]},
            (2, 4), [True, False], id="of two that become one",
        ),
        pytest.param({"system": "abc", **CACHED}, (), [False, True], id="the whole request: all that is there"),
        pytest.param({"system": "abc", "cache_control": None}, (), [False, False], id="nothing"),
    ],
)  # fmt: skip
def test_a_cache_control_marks_parts_of_what_is_common_to_conversations(more, parts, marks):
    asked = decode(json.dumps({"model": "m", "max_tokens": 5, "messages": [USER], **more}).encode())
    assert asked.messages[0].parts == parts
    assert [message.mark for message in asked.messages] == marks
