"""What Ollama's bodies ask for, and the lines of its answers."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest, EngineDied, Unsupported
from appliance.protocols.adapter import Answer, Fold
from appliance.protocols.ollama import decode_chat, decode_generate, read_chat, read_generate
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
from appliance.vocab.request import Grammar, Message, SamplingPatch, TextPrompt, TokenRules, Tool, ToolCall

HI = {"role": "user", "content": "hi"}
HELLO = Message(role="user", content="hi")


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "messages": [HI], **fields}).encode()


def generate(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "prompt": "hi", **fields}).encode()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


CHATS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {"messages": (HELLO,), "stream": True, "sampling": SamplingPatch(), "template": {}}),
    "whole": ({"stream": False}, {"stream": False}),
    "a tag": ({"model": "demo:latest"}, {"model": "demo"}),
    "options": (
        {"options": {"temperature": 0.5, "top_k": 5, "num_predict": 7, "stop": ["x"], "seed": 3,
                     "repeat_penalty": 1.1, "num_ctx": 2048, "mirostat": 1}},
        {"sampling": SamplingPatch(temperature=0.5, top_k=5, max_tokens=7, stop=("x",), seed=3,
                                   repetition_penalty=1.1), "ignored": ()}),
    "without an end": ({"options": {"num_predict": -1}}, {"sampling": SamplingPatch()}),
    "thinking": ({"think": True}, {"template": {"enable_thinking": True}}),
    "no thinking": ({"think": False}, {"template": {"enable_thinking": False}}),
    "much thinking": ({"think": "high"}, {"template": {"enable_thinking": True, "reasoning_effort": "high"}}),
    "JSON": ({"format": "json"}, {"grammar": Grammar("json_object", "", "format")}),
    "a schema": ({"format": {"type": "object"}},
                 {"grammar": Grammar("json_schema", '{"type": "object"}', "format")}),
    "a tool": ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
               {"tools": (Tool(name="f", parameters={"type": "object"}),)}),
    "results belong to calls by name and order": (
        {"messages": [
            HI, {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                 call("f", a=1), call("g"), call("f", a=2)]},
            {"role": "tool", "tool_name": "g", "content": "G"}, {"role": "tool", "content": "1"},
            {"role": "tool", "tool_name": "f", "content": "2"}]},
        {"messages": (
            HELLO,
            Message(role="assistant", content="", reasoning="hm", tool_calls=(
                ToolCall("call_1_0", "f", '{"a":1}'), ToolCall("call_1_1", "g", "{}"),
                ToolCall("call_1_2", "f", '{"a":2}'))),
            Message(role="tool", content="G", name="g", tool_call_id="call_1_1"),
            Message(role="tool", content="1", tool_call_id="call_1_0"),
            Message(role="tool", content="2", name="f", tool_call_id="call_1_2"))}),
    "a turn to continue": ({"messages": [HI, {"role": "assistant", "content": "It is"}]}, {"continue_final": True}),
    "nothing loads the model": ({"messages": []}, {"sampling": SamplingPatch(max_tokens=0)}),
    "unknown fields": ({"flavour": 1}, {"ignored": ("flavour",)}),
    "a chat that may be cut": ({"truncate": True, "shift": False}, {"truncates": True, "ignored": ()}),
    "a form under vLLM's name": ({"structured_outputs": {"regex": "a+"}},
                                 {"grammar": Grammar("regex", "a+", "structured_outputs.regex"), "ignored": ()}),
    "extensions beside the options": (
        {"top_k": 3, "min_tokens": 2, "options": {"top_k": 5}, "priority": 3, "include_stop_str_in_output": True,
         "chat_template_kwargs": {"style": "short"}, "bad_words": ["x"]},
        {"sampling": SamplingPatch(top_k=5, min_tokens=2), "priority": -3, "shows_stop": True, "stream": True,
         "template": {"style": "short"}, "rules": TokenRules(bad_words=("x",)), "ignored": ()}),
    "a model to be kept": ({"keep_alive": "5m"}, {"keep_alive": 300.0, "ignored": ()}),
    "a model to be unloaded": ({"messages": [], "keep_alive": 0}, {"keep_alive": 0.0}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CHATS.values(), ids=CHATS.keys())
def test_a_chat_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode_chat(chat(**fields))
    assert {name: getattr(request, name) for name in expected} == expected


GENERATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a prompt": ({}, {"messages": (HELLO,), "prompts": ()}),
    "a system": ({"system": "be brief"}, {"messages": (Message(role="system", content="be brief"), HELLO)}),
    "a raw prompt": ({"raw": True, "system": "x"}, {"messages": (), "prompts": (TextPrompt(text="hi"),)}),
    "nothing loads the model": ({"prompt": ""}, {"sampling": SamplingPatch(max_tokens=0)}),
    "fields that ask for nothing": ({"images": [], "suffix": "", "template": "", "context": []}, {"ignored": ()}),
}


@pytest.mark.parametrize(("fields", "expected"), GENERATIONS.values(), ids=GENERATIONS.keys())
def test_a_generate_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode_generate(generate(**fields))
    assert {name: getattr(request, name) for name in expected} == expected


BAD: dict[str, tuple[bytes, str, str]] = {
    "no model": (b'{"messages": []}', "model", "required"),
    "unknown role": (chat(messages=[{"role": "robot"}]), "messages[0].role", "must be one of"),
    "a temperature of 9": (chat(options={"temperature": 9}), "options.temperature", "<= 2"),
    "an empty stop": (chat(options={"stop": [""]}), "options.stop[0]", "1 to 256"),
    "a format of another kind": (chat(format="xml"), "format", "'json' or a JSON schema"),
    "two forms": (chat(format="json", guided_regex="a"), "guided_regex", "both ask"),
    "think a number": (chat(think=3), "think", "true, false"),
}


@pytest.mark.parametrize(("sent", "param", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_a_400_that_names_the_place(sent: bytes, param: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_chat(sent)
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


REFUSED: dict[str, tuple[bytes, str]] = {
    "images": (generate(images=["aGk="]), "images"),
    "a template": (generate(template="{{ .Prompt }}"), "template"),
    "a context": (generate(context=[1, 2]), "context"),
}


@pytest.mark.parametrize(("sent", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_honoured_is_refused_by_name(sent: bytes, param: str) -> None:
    with pytest.raises(Unsupported) as caught:
        decode_generate(sent)
    assert caught.value.param == param


def test_an_image_in_a_message_is_refused() -> None:
    with pytest.raises(Unsupported, match="images"):
        decode_chat(chat(messages=[{**HI, "images": ["aGk="]}]))


HEAD = '{"model":"demo","created_at":"1970-01-01T00:00:07.500000Z",'
COUNTS = (
    '"total_duration":500000000,"load_duration":500000000,"prompt_eval_count":5,"prompt_eval_duration":0,'
    '"eval_count":9,"eval_duration":0}'
)
FINISHED = Finished("stop", Usage(5, 9))
TOKEN = TokenLogprob("a", -0.5, b"a")
STREAMS: dict[str, tuple[bytes, list[Event], list[str], str]] = {
    "a chat": (
        chat(), [Started(5, 0), TextDelta("a"), TextDelta("b\u2028"), FINISHED],
        ['"message":{"role":"assistant","content":"a"},"done":false}',
         '"message":{"role":"assistant","content":"b\\u2028"},"done":false}',
         '"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",' + COUNTS],
        '"message":{"role":"assistant","content":"ab\\u2028"},"done":true,"done_reason":"stop",' + COUNTS),
    "a text": (
        generate(), [Started(5, 0), TextDelta("a"), Finished("length", Usage(5, 9))],
        ['"response":"a","done":false}', '"response":"","done":true,"done_reason":"length",' + COUNTS],
        '"response":"a","done":true,"done_reason":"length",' + COUNTS),
    "thoughts and calls": (
        chat(),
        [Started(5, 0), ReasoningDelta("hm"), ToolCallDelta(0, "c1", "f", '{"a"'), ToolCallDelta(0, arguments=":1}"),
         ToolCallDelta(1, "c2", "g"), Finished("tool_calls", Usage(5, 9))],
        ['"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}',
         '"message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"f",'
         '"arguments":{"a":1}}}]},"done":false}',
         '"message":{"role":"assistant","content":"","tool_calls":[{"id":"c2","function":{"index":1,"name":"g",'
         '"arguments":{}}}]},"done":false}',
         '"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",' + COUNTS],
        '"message":{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"c1","function":{"index":0,'
        '"name":"f","arguments":{"a":1}}},{"id":"c2","function":{"index":1,"name":"g","arguments":{}}}]},'
        '"done":true,"done_reason":"stop",' + COUNTS),
    "log-probabilities": (
        chat(logprobs=True), [Started(5, 0), TextDelta("a", (TOKEN,)), FINISHED],
        ['"message":{"role":"assistant","content":"a"},"logprobs":[{"token":"a","logprob":-0.5,"bytes":[97],'
         '"top_logprobs":[]}],"done":false}',
         '"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",' + COUNTS],
        '"message":{"role":"assistant","content":"a"},"logprobs":[{"token":"a","logprob":-0.5,"bytes":[97],'
        '"top_logprobs":[]}],"done":true,"done_reason":"stop",' + COUNTS),
    "a load": (
        chat(messages=[]), [Started(5, 0), Finished("length", Usage(5, 9))],
        ['"message":{"role":"assistant","content":""},"done":true,"done_reason":"load",' + COUNTS],
        '"message":{"role":"assistant","content":""},"done":true,"done_reason":"load",' + COUNTS),
}  # fmt: skip


def answer() -> Answer:
    return Answer("ollama-1", 7, "demo", clock=lambda: 0.5)


@pytest.mark.parametrize(("body", "events", "lines", "whole"), STREAMS.values(), ids=STREAMS.keys())
def test_events_become_lines_and_one_object(body: bytes, events: list[Event], lines: list[str], whole: str) -> None:
    read = read_chat if b"messages" in body else read_generate
    encoder, fold = read(body).stream(answer()), read(body).whole(answer())
    sent = b"".join(encoder.feed(0, event) for event in events) + encoder.close()
    assert sent.decode().split("\n") == [*(HEAD + line for line in lines), ""]
    assert folded(fold, events) == HEAD + whole + "\n"


def folded(fold: Fold, events: list[Event]) -> str:
    for event in events:
        fold.feed(0, event)
    return fold.body().decode()


def test_a_heartbeat_is_a_line_that_adds_nothing() -> None:
    beat = read_chat(chat()).stream(answer()).heartbeat().decode()
    assert beat == HEAD + '"message":{"role":"assistant","content":""},"done":false}\n'


def test_a_stream_that_fails_says_so() -> None:
    assert read_chat(chat()).stream(answer()).error(EngineDied("gone")) == b'{"error":"gone"}\n'
