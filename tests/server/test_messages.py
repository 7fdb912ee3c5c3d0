"""Anthropic messages through the official client, against the real process."""

import asyncio
from typing import Any

import anthropic
import httpx
import pytest

from tests.server.up import PATIENCE, Up

HI: Any = [{"role": "user", "content": "hi"}]
WEATHER: Any = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def ask(up: Up, **fields: Any) -> anthropic.types.Message:
    return up.anthropic().messages.create(**{"model": "demo", "max_tokens": 100, "messages": HI, **fields})


def test_a_whole_message(up: Up) -> None:
    message = ask(up)
    assert [block.type for block in message.content] == ["text"]
    assert message.content[0].text == "You said: hi"  # type: ignore[union-attr]
    assert (message.role, message.model, message.stop_reason) == ("assistant", "demo", "end_turn")
    assert message.id.startswith("msg_")
    assert message.usage.output_tokens > 0


@pytest.mark.parametrize("words", ["hi", "weather in Zürich?", "all cities"])
def test_a_streamed_message_is_the_whole_one(up: Up, words: str) -> None:
    fields: Any = {
        "model": "agent", "max_tokens": 100, "messages": [{"role": "user", "content": words}], "tools": [WEATHER],
    }  # fmt: skip
    with up.anthropic().messages.stream(**fields) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    whole = ask(up, **fields)
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert _plain(streamed) == _plain(whole)


def _plain(message: anthropic.types.Message) -> dict[str, Any]:
    plain = message.model_dump(include={"content", "stop_reason", "stop_sequence"})
    tokens = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
    blocks = [{name: value for name, value in block.items() if name != "id"} for block in plain["content"]]
    return {**plain, "content": blocks, "input": tokens, "output": message.usage.output_tokens}


def test_the_asynchronous_client_streams_text(up: Up) -> None:
    async def text() -> str:
        async with (
            anthropic.AsyncAnthropic(base_url=up.url, api_key="any") as client,
            client.messages.stream(model="demo", max_tokens=100, messages=HI) as stream,
        ):
            return "".join([piece async for piece in stream.text_stream])

    assert asyncio.run(text()) == "You said: hi"


def test_an_agents_turn_with_a_tool(up: Up) -> None:
    asked: Any = [{"role": "user", "content": "weather in Zürich?"}]
    message = ask(up, model="agent", messages=asked, tools=[WEATHER])
    thinking, text, call = message.content
    assert (thinking.type, thinking.thinking) == ("thinking", "where?")  # type: ignore[union-attr]
    assert (text.type, text.text.strip()) == ("text", "Let me look.")  # type: ignore[union-attr]
    assert (call.type, call.name, call.input) == ("tool_use", "weather", {"city": "Zürich"})  # type: ignore[union-attr]
    assert message.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "it is sunny"}  # type: ignore[union-attr]
    answer = ask(
        up,
        model="agent",
        messages=[*asked, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}],
        tools=[WEATHER],
    )
    assert answer.content[0].text == "Take a hat."  # type: ignore[union-attr]


def test_one_call_at_most_where_parallel_use_is_disabled(up: Up) -> None:
    choice: Any = {"type": "auto", "disable_parallel_tool_use": True}
    asked: Any = [{"role": "user", "content": "all cities"}]
    message = ask(up, model="agent", messages=asked, tools=[WEATHER], tool_choice=choice)
    assert [block.type for block in message.content] == ["tool_use"]


def test_a_system_message_in_the_middle_works(up: Up) -> None:
    turns = [*HI, {"role": "system", "content": "be brief"}]
    assert "be brief" in ask(up, messages=turns).content[0].text  # type: ignore[union-attr]


def test_a_stop_sequence_is_named(up: Up) -> None:
    message = ask(up, stop_sequences=[" said"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " said")


def test_a_limit_is_named(up: Up) -> None:
    assert ask(up, max_tokens=1).stop_reason == "max_tokens"


@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["plain", "with tools and system"])
def test_tokens_are_counted_as_the_request_uses_them(up: Up, tools: Any) -> None:
    more: Any = {"tools": tools, "system": "be brief"} if tools else {}
    counted = up.anthropic().messages.count_tokens(model="agent", messages=HI, **more)
    usage = ask(up, model="agent", **more).usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_a_prompt_may_be_counted_that_is_too_long_to_be_answered(up: Up) -> None:
    turns: Any = [{"role": "user", "content": "word " * 200}]
    assert up.anthropic().messages.count_tokens(model="fussy", messages=turns).input_tokens > 64
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 64 maximum"):
        ask(up, model="fussy", messages=turns)


STATUSES: dict[str, tuple[dict[str, Any], type[anthropic.APIStatusError], str]] = {
    "a bad field": ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error"),
    "no such model": ({"model": "nothing"}, anthropic.NotFoundError, "not_found_error"),
    "a model that cannot be loaded": ({"model": "broken"}, anthropic.InternalServerError, "overloaded_error"),
    "a template that refuses": (
        {"model": "fussy", "messages": [{"role": "user", "content": "forbidden"}]},
        anthropic.BadRequestError,
        "invalid_request_error",
    ),
}


@pytest.mark.parametrize(("fields", "kind", "type"), STATUSES.values(), ids=STATUSES.keys())
def test_the_official_client_knows_the_error(
    up: Up, fields: dict[str, Any], kind: type[anthropic.APIStatusError], type: str
) -> None:
    with pytest.raises(kind) as caught:
        ask(up, **fields)
    assert caught.value.body["error"]["type"] == type  # type: ignore[index]
    assert caught.value.request_id == caught.value.body["request_id"]  # type: ignore[index]


def test_a_failure_in_the_stream_is_raised(up: Up) -> None:
    with (
        pytest.raises(anthropic.APIStatusError),
        up.anthropic().messages.stream(model="faulty", max_tokens=9, messages=HI) as stream,
    ):
        for _ in stream:
            pass


def test_either_key_header_and_any_version_is_accepted(up: Up) -> None:
    body = {"model": "demo", "max_tokens": 9, "messages": HI}
    for headers in ({"x-api-key": "any", "anthropic-version": "2023-06-01"}, {"authorization": "Bearer any"}, {}):
        sent = {**headers, "anthropic-beta": "x,y"}
        response = httpx.post(f"{up.url}/v1/messages?beta=true", json=body, headers=sent, timeout=PATIENCE)
        assert response.status_code == 200
