"""On every protocol an answer's stream, put together as its clients do, is the answer that does not stream."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.protocols import anthropic_messages, ollama, openai_chat, openai_completions, openai_responses
from appliance.protocols.adapter import Answer, Decoded
from appliance.vocab.event import (
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    Usage,
)

TEXT = st.text(min_size=1, max_size=8)


@st.composite
def calls(draw: st.DrawFn) -> list[list[Event]]:
    """Whole calls in order, each in pieces."""
    made: list[list[Event]] = []
    for index in range(draw(st.integers(0, 3))):
        arguments = json.dumps(draw(st.dictionaries(TEXT, st.integers() | TEXT, max_size=2)))
        cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        parts = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        first = ToolCallDelta(index, f"call_{index}", f"f{index}", parts[0])
        made.append([first, *(ToolCallDelta(index, arguments=part) for part in parts[1:])])
    return made


@st.composite
def generations(draw: st.DrawFn, tools: bool) -> list[Event]:
    """The events of one answer, as engines order them."""
    thoughts: list[Event] = [ReasoningDelta(text) for text in draw(st.lists(TEXT, max_size=3))] if tools else []
    words: list[Event] = [TextDelta(text) for text in draw(st.lists(TEXT, max_size=4))]
    called = [piece for call in (draw(calls()) if tools else []) for piece in call]
    reason: Any = "tool_calls" if called else draw(st.sampled_from(["stop", "length"]))
    stop = draw(st.none() | TEXT) if reason == "stop" else None
    prompt, cached = draw(st.integers(1, 99)), draw(st.integers(0, 1))
    usage = Usage(prompt, draw(st.integers(1, 99)), cached, draw(st.integers(0, 9)))
    return [Started(prompt, cached), *thoughts, *words, *called, Finished(reason, usage, stop)]


def sse(sent: str) -> list[dict[str, Any]]:
    data = (chunk.rpartition("data: ")[2] for chunk in sent.split("\n\n") if chunk)
    return [json.loads(one) for one in data if one != "[DONE]"]


def chat(sent: str) -> Any:
    """As openai-python's accumulator: strings are joined, calls found by their index."""
    message: dict[str, Any] = {"content": "", "reasoning": "", "calls": {}}
    reason = usage = None
    for chunk in sse(sent):
        usage = chunk["usage"]
        for choice in chunk["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"]
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                known = message["calls"].setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                known["id"] += call.get("id") or ""
                called = call.get("function") or call["custom"]
                known["name"] += called.get("name") or ""
                known["arguments"] += called["input"] if "custom" in call else called["arguments"]
    return message["content"], message["reasoning"], list(message["calls"].values()), reason, usage


def whole_chat(body: dict[str, Any]) -> Any:
    choice = body["choices"][0]
    message = choice["message"]
    called = []
    for call in message.get("tool_calls") or ():
        told = call[call["type"]]
        text = told["arguments" if call["type"] == "function" else "input"]
        called.append({"id": call["id"], "name": told["name"], "arguments": text})
    reasoning = message.get("reasoning_content") or ""
    return message["content"] or "", reasoning, called, choice["finish_reason"], body["usage"]


def completion(sent: str) -> Any:
    chunks = sse(sent)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["text"] for choice in choices)
    return {"text": text, "finish_reason": choices[-1]["finish_reason"]}, chunks[-1]["usage"]


def whole_completion(body: dict[str, Any]) -> Any:
    choice = body["choices"][0]
    return {"text": choice["text"], "finish_reason": choice["finish_reason"]}, body["usage"]


def message(sent: str) -> Any:
    """As anthropic-python's accumulator: deltas belong to the block that was started."""
    start, *events = sse(sent)
    whole, pieces = start["message"], {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                whole["content"].append(event["content_block"])
            case "content_block_delta":
                delta, block = event["delta"], whole["content"][event["index"]]
                assert event["index"] == len(whole["content"]) - 1
                for key in ("text", "thinking"):
                    if key in delta:
                        block[key] += delta[key]
                pieces[event["index"]] = pieces.get(event["index"], "") + delta.get("partial_json", "")
            case "content_block_stop":
                if joined := pieces.get(event["index"]):
                    whole["content"][event["index"]]["input"] = json.loads(joined)
            case "message_delta":
                whole |= event["delta"]
                whole["usage"] = event["usage"]
    return whole


def response(sent: str) -> Any:
    """Its items as they were put together, and the object at the end, which must say the same."""
    items: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for event in sse(sent):
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(items)
                items.append(event["item"])
            case "response.content_part.added":
                items[event["output_index"]]["content"].append(event["part"])
            case "response.output_text.delta" | "response.reasoning_text.delta":
                items[event["output_index"]]["content"][event["content_index"]]["text"] += event["delta"]
            case "response.function_call_arguments.delta":
                items[event["output_index"]]["arguments"] += event["delta"]
            case "response.output_item.done":
                items[event["output_index"]]["status"] = event["item"]["status"]
            case "response.completed" | "response.incomplete":
                last = event["response"]
    assert last["output"] == items
    return last


def lines(sent: str) -> Any:
    whole: dict[str, Any] = {}
    text = thinking = ""
    called: list[Any] = []
    for line in sent.split("\n")[:-1]:
        whole = json.loads(line)
        text += whole["message"]["content"]
        thinking += whole["message"].get("thinking", "")
        called += whole["message"].get("tool_calls", [])
    return text, thinking, called, _ends(whole)


def whole_lines(body: dict[str, Any]) -> Any:
    said = body["message"]
    return said["content"], said.get("thinking", ""), said.get("tool_calls", []), _ends(body)


def _ends(last: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in last.items() if name != "message"}


@dataclass(frozen=True)
class Speaks:
    decoded: Decoded
    together: Callable[[str], Any]
    whole: Callable[[dict[str, Any]], Any] = lambda body: body
    tools: bool = True


HI = [{"role": "user", "content": "hi"}]
USAGE = {"include_usage": True}
CUSTOM = [{"type": "custom", "custom": {"name": name}} for name in ("f0", "f2")]
PROTOCOLS: dict[str, Speaks] = {
    "chat": Speaks(
        openai_chat.read(json.dumps({"model": "m", "messages": HI, "stream_options": USAGE}).encode()),
        chat,
        whole_chat,
    ),
    "chat with a custom tool": Speaks(
        openai_chat.read(
            json.dumps({"model": "m", "messages": HI, "stream_options": USAGE, "tools": CUSTOM}).encode()
        ),
        chat,
        whole_chat,
    ),
    "completions": Speaks(
        openai_completions.read(json.dumps({"model": "m", "prompt": "p", "stream_options": USAGE}).encode()),
        completion,
        whole_completion,
        tools=False,
    ),
    "messages": Speaks(
        anthropic_messages.read(json.dumps({"model": "m", "max_tokens": 9, "messages": HI}).encode()), message
    ),
    "responses": Speaks(
        openai_responses.read(json.dumps({"model": "m", "input": "hi"}).encode(), lambda id: None), response
    ),
    "ollama": Speaks(ollama.read_chat(json.dumps({"model": "m", "messages": HI}).encode()), lines, whole_lines),
}


@pytest.mark.parametrize("speaks", PROTOCOLS.values(), ids=PROTOCOLS.keys())
@settings(deadline=None)
@given(data=st.data())
def test_a_stream_put_together_is_the_whole_answer(speaks: Speaks, data: st.DataObject) -> None:
    events = data.draw(generations(speaks.tools))
    beats = data.draw(st.sets(st.integers(0, len(events) - 1)))
    answer = Answer("resp_1", 7, "m", include_usage=True)
    encoder, fold = speaks.decoded.stream(answer), speaks.decoded.whole(answer)
    sent = b""
    for at, event in enumerate(events):
        sent += encoder.feed(0, event)
        fold.feed(0, event)
        if at in beats:
            sent += heard(encoder.heartbeat())
    sent += encoder.close()
    assert speaks.together(sent.decode()) == speaks.whole(json.loads(fold.body()))


def heard(beat: bytes) -> bytes:
    """Comments and pings never reach those who put a stream together."""
    return b"" if beat.startswith((b":", b"event: ping")) else beat
