"""Whatever JSON is sent, a decoder understands it or says what is wrong: nothing else comes out of it."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.errors import BadRequest
from appliance.protocols import (
    anthropic_messages,
    ollama,
    openai_chat,
    openai_completions,
    openai_responses,
    tokens,
)
from appliance.protocols.fields import Reader

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}, "required": ["a"]}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "stop": ["x"], "logit_bias": {"5": 1}, "stream_options": {"include_usage": True}, "n": 2, "seed": 1,
    "logprobs": True, "top_logprobs": 3, "chat_template_kwargs": {"a": [1]}, "max_tokens": 5,
}  # fmt: skip
MESSAGES = {
    "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "document", "title": "t", "source": {
            "type": "text", "data": "d"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""},
                                          {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "text", "text": "4"}], "is_error": True}]},
        {"role": "system", "content": "late"},
    ],
    "tools": [{"name": "f", "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "w"}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1}, "output_config": {"effort": "low"}, "stop_sequences": ["x"],
}  # fmt: skip
RESPONSES = {
    "model": "m", "instructions": "i", "previous_response_id": None,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
        {"type": "custom_tool_call", "call_id": "d", "name": "p", "input": "x"},
    ],
    "tools": [{"type": "function", **FUNCTION}, {"type": "custom", "name": "p", "format": {"definition": "x"}},
              {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "text": {"format": {"type": "json_schema", "schema": SCHEMA}}, "include": ["message.output_text.logprobs"],
    "top_logprobs": 2, "reasoning": {"effort": "low"}, "metadata": {"a": "b"},
}  # fmt: skip
OLLAMA = {
    "model": "m:latest",
    "messages": [
        {"role": "user", "content": "hi", "images": []},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "4"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}], "think": "low", "format": SCHEMA,
    "options": {"temperature": 1, "stop": ["x"], "num_predict": 5, "logit_bias": {"1": 2}},
}  # fmt: skip
COMPLETIONS = {
    "model": "m",
    "prompt": [[1, 2], "a"],
    "n": 1,
    "best_of": 2,
    "echo": True,
    "stop": "x",
    "logprobs": None,
}

Decode = Callable[[bytes], Any]
DECODERS: dict[str, tuple[Decode, dict[str, Any], Mapping[str, Reader]]] = {
    "chat": (openai_chat.read, CHAT, openai_chat.FIELDS),
    "completions": (openai_completions.read, COMPLETIONS, openai_completions.FIELDS),
    "messages": (anthropic_messages.read, MESSAGES, anthropic_messages.FIELDS),
    "responses": (lambda body: openai_responses.read(body, lambda id: None), RESPONSES, openai_responses.FIELDS),
    "ollama chat": (ollama.read_chat, OLLAMA, ollama.CHAT),
    "ollama generate": (ollama.read_generate, {"model": "m", "prompt": "p", "system": "s"}, ollama.GENERATE),
    "tokenize": (tokens.decode_tokenize, {"model": "m", "prompt": "p"}, tokens.TOKENIZE),
    "detokenize": (tokens.decode_detokenize, {"model": "m", "tokens": [1]}, tokens.DETOKENIZE),
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
    | st.sampled_from(["user", "text", "function", "object", "auto", "json_schema", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "role", "content", "name", "text", "schema", "x"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a value with one of its keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield value, key
        yield from places(child)


@pytest.mark.parametrize(("decode", "sample", "table"), DECODERS.values(), ids=DECODERS.keys())
def test_the_sample_itself_is_understood(decode: Decode, sample: Any, table: Mapping[str, Reader]) -> None:
    assert decode(json.dumps(sample).encode())


@pytest.mark.parametrize(("decode", "sample", "table"), DECODERS.values(), ids=DECODERS.keys())
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_one_place_changed_is_understood_or_refused(
    decode: Decode, sample: Any, table: Mapping[str, Reader], data: st.DataObject
) -> None:
    body = copy.deepcopy(sample)
    container, key = data.draw(st.sampled_from(list(places(body))))
    container[key] = data.draw(JSON)
    understood_or_refused(decode, body)


@pytest.mark.parametrize(("decode", "sample", "table"), DECODERS.values(), ids=DECODERS.keys())
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_values_of_known_fields_are_understood_or_refused(
    decode: Decode, sample: Any, table: Mapping[str, Reader], data: st.DataObject
) -> None:
    more = data.draw(st.dictionaries(st.sampled_from(sorted(table)), JSON, max_size=4))
    understood_or_refused(decode, {**sample, **more})


def understood_or_refused(decode: Decode, body: Any) -> None:
    try:
        assert decode(json.dumps(body).encode())
    except BadRequest as error:
        assert error.message
