"""Which form an answer must have: OpenAI's response_format, the extensions of other servers, and forced calls."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest
from appliance.protocols.openai_chat import decode
from appliance.vocab.request import GenerateRequest, Grammar

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


def asked(**fields: Any) -> GenerateRequest:
    body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}], **fields}
    return decode(json.dumps(body).encode())


FORMS: dict[str, tuple[dict[str, Any], Grammar | None]] = {
    "nothing": ({}, None),
    "text": ({"response_format": {"type": "text"}}, None),
    "null": ({"response_format": None, "guided_json": None}, None),
    "json_object": ({"response_format": {"type": "json_object"}}, Grammar("json_object")),
    "json_schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}},
        Grammar("json_schema", json.dumps(SCHEMA)),
    ),
    "guided_json": ({"guided_json": SCHEMA}, Grammar("json_schema", json.dumps(SCHEMA), "guided_json")),
    "guided_json as text": (
        {"guided_json": json.dumps(SCHEMA)},
        Grammar("json_schema", json.dumps(SCHEMA), "guided_json"),
    ),
    "guided_regex": ({"guided_regex": "a+"}, Grammar("regex", "a+", "guided_regex")),
    "guided_choice": ({"guided_choice": ["é", "b"]}, Grammar("choice", '["é", "b"]', "guided_choice")),
    "guided_grammar": ({"guided_grammar": "start: A"}, Grammar("lark", "start: A", "guided_grammar")),
    "structured_outputs": (
        {"structured_outputs": {"regex": "b"}},
        Grammar("regex", "b", "structured_outputs.regex"),
    ),
    "structured_outputs, any JSON": (
        {"structured_outputs": {"json": {}, "json_object": False}},
        Grammar("json_schema", "{}", "structured_outputs.json"),
    ),
}


@pytest.mark.parametrize(("fields", "expected"), FORMS.values(), ids=list(FORMS))
def test_a_form_is_read_into_a_grammar(fields: dict[str, Any], expected: Grammar | None) -> None:
    assert asked(**fields).grammar == expected


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown type": ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
    "no type": ({"response_format": {}}, "response_format", "type"),
    "no schema": ({"response_format": {"type": "json_schema"}}, "response_format", "schema"),
    "empty schema object": (
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        "response_format",
        "schema",
    ),
    "schema not an object": ({"guided_json": "[1]"}, "guided_json", "object"),
    "schema not JSON": ({"guided_json": "{"}, "guided_json", "JSON"),
    "choices empty": ({"guided_choice": []}, "guided_choice", "non-empty"),
    "a choice empty": ({"guided_choice": ["a", ""]}, "guided_choice", "non-empty"),
    "no choice in one": ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "non-empty"),
    "regex empty": ({"guided_regex": ""}, "guided_regex", "empty"),
    "regex empty in one": ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex", "empty"),
    "grammar empty": ({"guided_grammar": ""}, "guided_grammar", "empty"),
    "grammar empty in one": ({"structured_outputs": {"grammar": ""}}, "structured_outputs.grammar", "empty"),
    "schema empty text in one": ({"structured_outputs": {"json": ""}}, "structured_outputs.json", "JSON"),
    "two forms": ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice", "both"),
    "two in one": ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs", "several"),
}


@pytest.mark.parametrize(("fields", "param", "words"), BAD.values(), ids=list(BAD))
def test_a_form_that_makes_no_sense_is_refused_by_name(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        asked(**fields)
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


CHOICES: dict[str, tuple[Any, dict[str, bool]]] = {
    "auto": ("auto", {"f": False, "g": False}),
    "none": ("none", {}),
    "required": ("required", {"f": True, "g": True}),
    "named": ({"type": "function", "function": {"name": "g"}}, {"f": False, "g": True}),
    "allowed": (
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool("g")]}},
        {"g": False},
    ),
    "allowed, required": (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("g")]}},
        {"g": True},
    ),
}


@pytest.mark.parametrize(("choice", "forced"), CHOICES.values(), ids=list(CHOICES))
def test_a_choice_shows_tools_and_marks_those_that_must_be_called(choice: Any, forced: dict[str, bool]) -> None:
    tools = asked(tools=[tool("f"), tool("g")], tool_choice=choice).tools
    assert {tool.name: tool.forced for tool in tools} == forced
