"""What a chat body asks for, and what is wrong with one that cannot be understood."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.fields import MAX_DEPTH
from appliance.protocols.openai_chat import decode
from appliance.vocab.request import Message, SamplingPatch, Tool, ToolCall

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "messages": [USER], **fields}).encode()


def said(*messages: dict[str, Any]) -> bytes:
    return body(messages=list(messages))


def tool(**function: Any) -> bytes:
    return body(tools=[{"type": "function", "function": {"name": "f", **function}}])


def custom(**fields: Any) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": "p", **fields}}


def free(**form: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"input": {"type": "string", **form}}, "required": ["input"]}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


BAD: dict[str, tuple[bytes, str | None, str]] = {
    # the body
    "empty body": (b"", None, "empty"),
    "only spaces": (b"  \n", None, "empty"),
    "not JSON": (b"{model: demo}", None, "not valid JSON"),
    "cut off": (b'{"model": "demo", "messages": [', None, "not valid JSON"),
    "trailing comma": (b'{"model": "demo",}', None, "line 1, column"),
    "two values": (b"{} {}", None, "not valid JSON"),
    "a list": (b"[]", None, "JSON object"),
    "a string": (b'"hi"', None, "JSON object"),
    "null": (b"null", None, "JSON object"),
    "invalid UTF-8": (b'{"model": "demo", "messages": [{"role": "user", "content": "\xff"}]}', "messages", "UTF-8"),
    "NaN": (b'{"model": "demo", "messages": [], "temperature": NaN}', "temperature", "is NaN"),
    "an infinity": (b'{"model": "demo", "logit_bias": {"5": -Infinity}}', "logit_bias.5", "is -Infinity"),
    "NaN in a list": (b'{"model": "demo", "tools": [{"x": [1, NaN]}]}', "tools[0].x[1]", "is NaN"),
    "NaN and more": (b'{"model": NaN,', None, "not valid JSON"),
    "endless nesting": (b'{"model": ' + b"[" * 100_000, None, "too deeply"),
    "endless nesting in a field": (
        b'{"model": "demo", "messages": ' + b"[" * 900 + b"]" * 900 + b"}", "messages[0]", "expected",
    ),
    # model and messages
    "no model": (b'{"messages": [{"role": "user", "content": "hi"}]}', "model", "required"),
    "model null": (body(model=None), "model", "required"),
    "model a number": (body(model=5), "model", "must be the name of a model, got 5"),
    "model empty": (body(model=""), "model", "must be the name"),
    "no messages": (b'{"model": "demo"}', "messages", "required"),
    "messages empty": (body(messages=[]), "messages", "at least one"),
    "messages a string": (body(messages="hi"), "messages", "must be a list of messages"),
    "message a string": (body(messages=["hi"]), "messages[0]", "expected an object, got a string"),
    "no role": (said({"content": "hi"}), "messages[0].role", "required"),
    "unknown role": (said(USER, {"role": "robot", "content": "hi"}), "messages[1].role", "must be one of system"),
    "function role without name": (said({"role": "function", "content": "hi"}), "messages[0].name", "required"),
    "no content": (said({"role": "user"}), "messages[0].content", "must be a string"),
    "content null": (said({"role": "system", "content": None}), "messages[0].content", "must be a string"),
    "content a number": (said({"role": "user", "content": 5}), "messages[0].content", "got an integer"),
    "content no parts": (said({"role": "user", "content": []}), "messages[0].content", "non-empty list"),
    "part without type": (said({"role": "user", "content": [{"text": "a"}]}), "messages[0].content[0].type",
                          "required"),
    "part of unknown type": (said({"role": "user", "content": [{"type": "smell"}]}), "messages[0].content[0].type",
                             "'smell'"),
    "text part without text": (said({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text",
                               "required"),
    "image": (said({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {
              "url": "data:"}}]}), "messages[0].content[1].image_url", "an image"),
    "audio part": (said({"role": "user", "content": [{"type": "input_audio"}]}), "messages[0].content[0].input_audio",
                   "audio"),
    "silent assistant": (said({"role": "assistant", "content": None}), "messages[0].content", "tool_calls"),
    "assistant function_call without arguments": (
        said({"role": "assistant", "content": "", "function_call": {"name": "f"}}),
        "messages[0].function_call.arguments", "required"),
    "functions and tools": (body(functions=[{"name": "f"}], tools=[TOOL]), "functions", "both"),
    "a function without name": (body(functions=[{}]), "functions[0].name", "required"),
    "a function that is not offered": (body(functions=[{"name": "f"}], function_call={"name": "g"}), "tool_choice",
                                       "'g'"),
    "call without id": (said({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
                        "messages[0].tool_calls[0].id", "required"),
    "call with object arguments": (
        said({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {}}}]}),
        "messages[0].tool_calls[0].function.arguments", "expected a string"),
    "call of another type": (
        said({"role": "assistant", "tool_calls": [{"id": "1", "type": "shell"}]}),
        "messages[0].tool_calls[0].type", "'function' or 'custom'"),
    "call of a custom tool without its text": (
        said({"role": "assistant", "tool_calls": [
              {"id": "1", "type": "custom", "function": {"name": "f", "arguments": ""}}]}),
        "messages[0].tool_calls[0].custom", "required"),
    "a custom tool that is none": (body(tools=[{"type": "custom"}]), "tools[0].custom", "required"),
    "a custom tool with another's name": (
        body(tools=[TOOL, custom(name="f")]), "tools[1].custom.name", "another tool"),
    "a custom tool of an unknown form": (
        body(tools=[custom(format={"type": "xml"})]), "tools[0].custom.format.type", "'text' or 'grammar'"),
    "a custom tool with a grammar of no kind": (
        body(tools=[custom(format={"type": "grammar", "grammar": {"syntax": "bnf", "definition": "x"}})]),
        "tools[0].custom.format", "'lark' or 'regex'"),
    "a custom tool that is not offered": (
        body(tools=[TOOL], tool_choice={"type": "custom", "custom": {"name": "p"}}), "tool_choice", "'p'"),
    "result without id": (said({"role": "tool", "content": "4"}), "messages[0].tool_call_id", "required"),
    "result without content": (said({"role": "tool", "tool_call_id": "1"}), "messages[0].content", "required"),
    "half a surrogate pair": (b'{"model": "demo", "messages": [{"role": "user", "content": "\\ud83d"}]}', None,
                              "surrogate"),
    "half a surrogate pair inside": (
        b'{"model": "demo", "messages": [{"role": "user", "content": "a\\ude00 b"}]}', None, "surrogate"),
    "half a surrogate pair before text": (
        b'{"model": "demo", "messages": [{"role": "user", "content": "\\ud83dabcdef"}]}', None, "surrogate"),
    # sampling
    "temperature 99": (body(temperature=99), "temperature", "from 0 to 2, got 99"),
    "temperature below 0": (body(temperature=-0.1), "temperature", "from 0 to 2"),
    "temperature a string": (body(temperature="hot"), "temperature", 'got "hot"'),
    "temperature true": (body(temperature=True), "temperature", "got true"),
    "temperature infinite": (b'{"model": "m", "messages": [], "temperature": 1e999}', "messages", "at least one"),
    "temperature out of range": (
        b'{"temperature": 1e999, "model": "m", "messages": []}', "temperature", "from 0 to 2"),
    "top_p 1.5": (body(top_p=1.5), "top_p", "from 0 to 1"),
    "top_k -2": (body(top_k=-2), "top_k", "at least -1"),
    "top_k a fraction": (body(top_k=1.5), "top_k", "an integer"),
    "min_p -1": (body(min_p=-1), "min_p", "from 0 to 1"),
    "presence_penalty 3": (body(presence_penalty=3), "presence_penalty", "from -2 to 2"),
    "frequency_penalty a list": (body(frequency_penalty=[1]), "frequency_penalty", "from -2 to 2"),
    "repetition_penalty 0": (body(repetition_penalty=0), "repetition_penalty", "above 0"),
    "max_tokens 0": (body(max_tokens=0), "max_tokens", "at least 1, got 0"),
    "max_tokens negative": (body(max_tokens=-5), "max_tokens", "at least 1, got -5"),
    "max_tokens a fraction": (body(max_tokens=1.5), "max_tokens", "an integer"),
    "max_tokens enormous": (body(max_tokens=10**30), "max_tokens", "an integer"),
    "max_completion_tokens 0": (body(max_completion_tokens=0), "max_completion_tokens", "at least 1"),
    "min_tokens above max": (body(min_tokens=9, max_tokens=5), "min_tokens", "larger than"),
    "seed a string": (body(seed="1"), "seed", "64-bit integer"),
    "seed too large": (body(seed=2**64), "seed", "64-bit integer"),
    "stop a number": (body(stop=5), "stop", "a string or a list"),
    "stop empty": (body(stop=""), "stop", "1 to 256 characters"),
    "stop holding an empty string": (body(stop=["a", ""]), "stop[1]", "1 to 256 characters"),
    "100 stop strings": (body(stop=["x"] * 100), "stop", "at most 16 strings, got 100"),
    "stop too long": (body(stop="x" * 257), "stop", "1 to 256 characters"),
    "stop of numbers": (body(stop=[1]), "stop[0]", "expected a string"),
    "stop_token_ids negative": (body(stop_token_ids=[-1]), "stop_token_ids[0]", ">= 0"),
    "logit_bias a list": (body(logit_bias=[1]), "logit_bias", "token ids"),
    "logit_bias of a word": (body(logit_bias={"cat": 1}), "logit_bias", "token ids"),
    "logit_bias 101": (body(logit_bias={"5": 101}), "logit_bias", "-100 to 100"),
    "ignore_eos a string": (body(ignore_eos="yes"), "ignore_eos", "true or false"),
    # the answer's shape
    "n 0": (body(n=0), "n", "from 1 to 128, got 0"),
    "n 1000": (body(n=1000), "n", "from 1 to 128"),
    "logprobs a number": (body(logprobs=5), "logprobs", "true or false"),
    "top_logprobs alone": (body(top_logprobs=5), "top_logprobs", "needs `logprobs`"),
    "top_logprobs 21": (body(logprobs=True, top_logprobs=21), "top_logprobs", "from 0 to 20"),
    "stream a string": (body(stream="yes"), "stream", "true or false"),
    "stream_options a list": (body(stream_options=[]), "stream_options", "an object"),
    "include_usage a number": (body(stream_options={"include_usage": 1}), "stream_options.include_usage", "expected"),
    # tools
    "tools an object": (body(tools={}), "tools", "a list of tools"),
    "tool of another type": (body(tools=[{"type": "retrieval"}]), "tools[0].type", "'function'"),
    "tool without function": (body(tools=[{"type": "function"}]), "tools[0].function", "required"),
    "tool without name": (body(tools=[{"type": "function", "function": {}}]), "tools[0].function.name", "required"),
    "tool with a space": (tool(name="a b"), "tools[0].function.name", "letters, digits"),
    "tool twice": (body(tools=[TOOL, TOOL]), "tools[1].function.name", "too"),
    "an expected answer of another kind": (body(prediction={"type": "outcome", "content": "x"}), "prediction.type",
                                           "must be 'content'"),
    "an expected answer without content": (body(prediction={"type": "content"}), "prediction", "of type content"),
    "an expected picture": (body(prediction={"type": "content", "content": [{"type": "image_url"}]}),
                            "prediction.content[0].type", "must be 'text'"),
    "schema a string": (tool(parameters="object"), "tools[0].function.parameters", "expected"),
    "schema of an array": (tool(parameters={"type": "array"}), "tools[0].function.parameters.type", "'object'"),
    "schema of no type": (tool(parameters={"properties": {"a": {"type": "text"}}}),
                          "tools[0].function.parameters.properties.a.type", "one of array"),
    "schema with listed properties": (tool(parameters={"properties": []}),
                                      "tools[0].function.parameters.properties", "object of schemas"),
    "schema with a required word": (tool(parameters={"required": "a"}), "tools[0].function.parameters.required",
                                    "list of strings"),
    "schema with an empty enum": (tool(parameters={"properties": {"a": {"enum": []}}}),
                                  "tools[0].function.parameters.properties.a.enum", "non-empty"),
    "schema with an empty anyOf": (tool(parameters={"anyOf": []}), "tools[0].function.parameters.anyOf", "non-empty"),
    "schema with a negative length": (tool(parameters={"properties": {"a": {"minLength": -1}}}),
                                      "tools[0].function.parameters.properties.a.minLength", "at least 0"),
    "schema too deep": (tool(parameters=nested(MAX_DEPTH)), "tools[0].function.parameters", "nested deeper"),
    "tool_choice unknown": (body(tools=[TOOL], tool_choice="maybe"), "tool_choice", "must be"),
    "tool_choice required without tools": (body(tool_choice="required"), "tool_choice", "empty"),
    "tool_choice names no tool": (
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}), "tool_choice", "'g'"),
    # the prompt
    "chat_template_kwargs a list": (body(chat_template_kwargs=[]), "chat_template_kwargs", "an object"),
    "chat_template_kwargs of the server": (body(chat_template_kwargs={"tools": []}), "chat_template_kwargs.tools",
                                           "set by the server"),
    "chat_template_kwargs too deep": (body(chat_template_kwargs=nested(MAX_DEPTH)), "chat_template_kwargs",
                                      "nested deeper"),
    "chat_template_kwargs past 64 bits": (body(chat_template_kwargs={"a": 2**70}), "chat_template_kwargs", "64 bits"),
    "reasoning_effort unknown": (body(reasoning_effort="huge"), "reasoning_effort", "one of none"),
    "a user message as prefix": (said({**USER, "prefix": True}), "messages[0].prefix", "assistant"),
    "a prefix that is no flag": (said(USER, {"role": "assistant", "content": "x", "prefix": "It"}),
                                 "messages[1].prefix", "true or false"),
    "a prefix and a prompt": (said(USER, {"role": "assistant", "content": "x", "prefix": True}).replace(
        b'"model"', b'"add_generation_prompt": true, "model"'), "continue_final_message", "cannot both"),
    "continue a user message": (body(continue_final_message=True), "continue_final_message", "assistant"),
    "continue and prompt": (body(continue_final_message=True, add_generation_prompt=True), "continue_final_message",
                            "both"),
}  # fmt: skip

REFUSED: dict[str, tuple[bytes, str]] = {
    "audio": (body(audio={"voice": "a"}), "audio"),
    "modalities": (body(modalities=["text", "audio"]), "modalities"),
    "web search": (body(web_search_options={}), "web_search_options"),
    "own template": (body(chat_template="{{ x }}"), "chat_template"),
    "typical sampling": (body(typical_p=0.9), "typical_p"),
    "no generation prompt": (body(add_generation_prompt=False), "add_generation_prompt"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "param", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_a_400_that_names_the_place(sent: bytes, param: str | None, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(sent)
    assert caught.value.status == 400
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


@pytest.mark.parametrize(("sent", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_a_field_that_cannot_be_honoured_is_refused_by_name(sent: bytes, param: str) -> None:
    with pytest.raises(Unsupported) as caught:
        decode(sent)
    assert caught.value.param == param
    assert param in caught.value.message


SAMPLING: dict[str, tuple[dict[str, Any], SamplingPatch]] = {
    "nothing given": ({}, SamplingPatch()),
    "null is not given": (dict.fromkeys(["temperature", "top_p", "max_tokens", "stop", "seed", "logit_bias"]),
                          SamplingPatch()),
    "greedy": ({"temperature": 0}, SamplingPatch(temperature=0.0)),
    "an integer is a number": ({"top_p": 1}, SamplingPatch(top_p=1.0)),
    "one stop string": ({"stop": "END"}, SamplingPatch(stop=("END",))),
    "several stop strings": ({"stop": ["a", "b"]}, SamplingPatch(stop=("a", "b"))),
    "max_tokens": ({"max_tokens": 7}, SamplingPatch(max_tokens=7)),
    "max_completion_tokens wins": ({"max_tokens": 7, "max_completion_tokens": 9}, SamplingPatch(max_tokens=9)),
    "top_k -1 is off": ({"top_k": -1}, SamplingPatch(top_k=0)),
    "logit_bias keys are ids": ({"logit_bias": {"50256": -100, "7": 1.5}},
                                SamplingPatch(logit_bias={50256: -100.0, 7: 1.5})),
    "a negative seed": ({"seed": -1}, SamplingPatch(seed=2**63 - 1)),
    "a budget for reasoning": ({"reasoning_budget": 64}, SamplingPatch(reasoning_budget=64)),
    "a budget by its other names": ({"reasoning_max_tokens": 64, "thinking_token_budget": 32},
                                    SamplingPatch(reasoning_budget=32)),
    "reasoning that nobody wants to see": ({"include_reasoning": False}, SamplingPatch(include_reasoning=False)),
    "extensions": ({"min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 2, "ignore_eos": True,
                    "stop_token_ids": [1, 2]},
                   SamplingPatch(min_p=0.1, repetition_penalty=1.1, min_tokens=2, ignore_eos=True,
                                 stop_token_ids=(1, 2))),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "patch"), SAMPLING.values(), ids=SAMPLING.keys())
def test_sampling_holds_only_what_the_client_said(fields: dict[str, Any], patch: SamplingPatch) -> None:
    assert decode(body(**fields)).sampling == patch


MESSAGES: dict[str, tuple[dict[str, Any], Message]] = {
    "text": (USER, Message(role="user", content="hi")),
    "an empty text": ({"role": "user", "content": ""}, Message(role="user", content="")),
    "developer is system": ({"role": "developer", "content": "be brief"}, Message(role="system", content="be brief")),
    "parts are joined": (
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        Message(role="user", content="a\nb")),
    "a name": ({"role": "user", "content": "hi", "name": "ann"}, Message(role="user", content="hi", name="ann")),
    "an assistant that called": (
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None,
         "function_call": None,
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="f", arguments="{}"),))),
    "an assistant that called a custom tool": (
        {"role": "assistant",
         "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "p", "input": "a\n"}}]},
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="p", arguments='{"input":"a\\n"}'),))),
    "an assistant with empty tool_calls": ({"role": "assistant", "content": "x", "tool_calls": []},
                                           Message(role="assistant", content="x")),
    "an assistant that refused": ({"role": "assistant", "content": None, "refusal": "no"},
                                  Message(role="assistant", content="no")),
    "an assistant that reasoned": ({"role": "assistant", "content": "4", "reasoning_content": "2+2"},
                                   Message(role="assistant", content="4", reasoning="2+2")),
    "an assistant that reasoned by the newer name": (
        {"role": "assistant", "content": "4", "reasoning": "2+2"},
        Message(role="assistant", content="4", reasoning="2+2")),
    "an assistant that called a function": (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        Message(role="assistant", tool_calls=(ToolCall(id="call_f", name="f", arguments="{}"),))),
    "a function's result": ({"role": "function", "name": "f", "content": "4"},
                            Message(role="tool", content="4", name="f", tool_call_id="call_f")),
    "a tool's result": ({"role": "tool", "tool_call_id": "c1", "content": "4"},
                        Message(role="tool", content="4", tool_call_id="c1")),
    "a tool's result in parts": ({"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}]},
                                 Message(role="tool", content="4", tool_call_id="c1")),
    "raw and escaped text": ({"role": "user", "content": "é\u2028😀\u0000"},
                             Message(role="user", content="é\u2028😀\u0000")),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_message_becomes_a_turn(sent: dict[str, Any], message: Message) -> None:
    assert decode(said(sent)).messages == (message,)


def test_text_that_is_not_escaped_reads_the_same() -> None:
    plain = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "é😀"}]}, ensure_ascii=False)
    assert decode(plain.encode()).messages[0].content == "é😀"


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {"n": 1, "stream": False, "include_usage": False, "logprobs": None, "tools": ()}),
    "stream": ({"stream": True}, {"stream": True, "include_usage": False}),
    "usage": ({"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
              {"include_usage": True}),
    "two answers": ({"n": 2}, {"n": 2}),
    "logprobs": ({"logprobs": True}, {"logprobs": 0}),
    "top_logprobs": ({"logprobs": True, "top_logprobs": 3}, {"logprobs": 3}),
    "logprobs off": ({"logprobs": False, "top_logprobs": 0}, {"logprobs": None}),
    "a user": ({"user": "ann"}, {"user": "ann"}),
    "template arguments": ({"chat_template_kwargs": {"enable_thinking": False}}, {"template": {
                            "enable_thinking": False}}),
    "effort is a template argument": ({"reasoning_effort": "low"}, {"template": {"reasoning_effort": "low"}}),
    "harmless fields": ({"store": True, "metadata": {}, "service_tier": "auto", "prompt_cache_key": "k",
                         "safety_identifier": "s", "verbosity": "low"}, {"ignored": ()}),
    "an expected answer": ({"prediction": {"type": "content", "content": "as before"}}, {"prediction": "as before"}),
    "an expected answer in parts": ({"prediction": {"type": "content", "content": [
        {"type": "text", "text": "as "}, {"type": "text", "text": "before"}]}}, {"prediction": "as before"}),
    "unknown fields": ({"odd": "5m", "flavour": 1}, {"ignored": ("odd", "flavour")}),
    "an adapter": ({"adapter": "sql"}, {"adapter": "sql"}),
    "no adapter": ({"adapter": ""}, {"adapter": ""}),
    "the adapter of the alias": ({}, {"adapter": None}),
    "a model to be kept": ({"keep_alive": "1h30m"}, {"keep_alive": 5400.0, "ignored": ()}),
    "fields that ask for nothing": ({"response_format": {"type": "text"}, "modalities": ["text"], "audio": None,
                                     "functions": [], "function_call": "auto", "tool_choice": "none",
                                     "parallel_tool_calls": False}, {"ignored": ()}),
    "a tool": ({"tools": [TOOL]}, {"tools": (Tool(name="f", parameters={"type": "object"}),)}),
    "a tool without parameters": ({"tools": [{"type": "function", "function": {"name": "f"}}]},
                                  {"tools": (Tool(name="f"),)}),
    "no tool is shown": ({"tools": [TOOL], "tool_choice": "none"}, {"tools": ()}),
    "functions": ({"functions": [{"name": "f"}]}, {"tools": (Tool(name="f"),), "parallel_calls": False}),
    "a forced function": ({"functions": [{"name": "f"}], "function_call": {"name": "f"}},
                          {"tools": (Tool(name="f", forced=True),)}),
    "no function": ({"functions": [{"name": "f"}], "function_call": "none"}, {"tools": ()}),
    "one call at most": ({"tools": [TOOL], "parallel_tool_calls": False}, {"parallel_calls": False}),
    "priority and salt": ({"priority": 3, "cache_salt": "ann"}, {"priority": -3, "cache_salt": "ann"}),
    "a custom tool": ({"tools": [custom(description="Patch.")]},
                      {"tools": (Tool(name="p", description="Patch.", parameters=free()),)}),
    "a custom tool that is forced": (
        {"tools": [TOOL, custom()], "tool_choice": {"type": "custom", "custom": {"name": "p"}}},
        {"tools": (Tool(name="f", parameters={"type": "object"}), Tool(name="p", parameters=free(), forced=True))}),
    "a custom tool of a regular expression": (
        {"tools": [custom(format={"type": "grammar", "grammar": {"syntax": "regex", "definition": "a|b"}})]},
        {"tools": (Tool(name="p", description="\n\nThe form of `input`:\na|b", strict=True,
                        parameters=free(pattern="^(?:a|b)$")),)}),
    "a custom tool of a grammar": (
        {"tools": [custom(format={"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}})]},
        {"tools": (Tool(name="p", description="\n\nThe form of `input`:\nstart: /a/", parameters=free(),
                        grammar="start: /a/"),)}),
    "custom tools are among those allowed": (
        {"tools": [TOOL, custom()], "tool_choice": {"type": "allowed_tools", "allowed_tools": {
         "mode": "auto", "tools": [{"type": "custom", "custom": {"name": "p"}}]}}},
        {"tools": (Tool(name="p", parameters=free()),)}),
    "some tools are shown": (
        {"tools": [TOOL, {"type": "function", "function": {"name": "g"}}], "tool_choice": {
         "type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
          {"type": "function", "function": {"name": "g"}}]}}},
        {"tools": (Tool(name="g"),)}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_a_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode(body(**fields))
    assert {name: getattr(request, name) for name in expected} == expected


BEGUN = {"role": "assistant", "content": "It is"}
CONTINUED: dict[str, tuple[dict[str, Any], bool]] = {
    "by its field": (
        {"messages": [USER, BEGUN], "continue_final_message": True, "add_generation_prompt": False}, True),
    "by the message's own prefix": ({"messages": [USER, {**BEGUN, "prefix": True}]}, True),
    "by a prefix, and no prompt for another": (
        {"messages": [USER, {**BEGUN, "prefix": True}], "add_generation_prompt": False}, True),
    "not, as it is none": ({"messages": [USER, {**BEGUN, "prefix": False}]}, False),
    "not, as the field says so": (
        {"messages": [USER, {**BEGUN, "prefix": True}], "continue_final_message": False}, False),
    "not, as more was said since": ({"messages": [USER, {**BEGUN, "prefix": True}, USER]}, False),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "continued"), CONTINUED.values(), ids=CONTINUED.keys())
def test_an_assistant_message_can_be_continued(fields: dict[str, Any], continued: bool) -> None:
    assert decode(body(**fields)).continue_final is continued


def test_a_schema_may_be_as_deep_as_the_limit() -> None:
    assert decode(tool(parameters=nested(MAX_DEPTH // 2 - 1))).tools
