"""What a 135M model is forced to say validates, whatever it would have liked to say: schemas and calls of tools.

Strings of the schemas are bounded and one call is asked for, so that the longest valid answer fits into max_tokens:
nothing but that limit ends a string, or a list of calls, that a model does not want to end.
"""

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Iterator
from itertools import count, cycle, islice, zip_longest
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import openai
import pydantic
import pytest

from tests.server.up import Up

TEXT = {"type": "string", "maxLength": 24}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS: dict[str, Any] = {
    "a person": an_object(
        name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 120}, adult={"type": "boolean"}
    ),
    "a list": an_object(cities={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}),
    "references": {
        **an_object(first={"$ref": "#/$defs/point"}, second={"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]}),
        "$defs": {
            "point": an_object(x={"type": "integer", "minimum": -99, "maximum": 99}, label={"enum": ["ä", "b"]})
        },
    },
    "a pattern": an_object(code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, kind={"const": "code"}),
    "no object at all": {"type": "array", "items": {"enum": [1, "two", None]}, "minItems": 2, "maxItems": 4},
}
PARAMETERS: dict[str, Any] = {
    "weather": an_object(city=TEXT, unit={"enum": ["celsius", "fahrenheit"]}),
    "search": {
        **an_object(query=TEXT, limit={"type": "integer", "minimum": 1, "maximum": 50}),
        "required": ["query"],
    },
    "now": an_object(),
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": f"For {name}.", "parameters": schema}}
    for name, schema in PARAMETERS.items()
]
PROMPTS = [
    "What is the weather in Paris?",
    "Tell me about yourself.",
    "Please do not answer.",
    "1 + 1?",
    "日本語で答えて",
    "Write a long story about the sea, with many details.",
]


@pytest.fixture(scope="module")
def small(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    file = tmp_path_factory.mktemp("validity") / "deploy.yaml"
    model = f"{{source: {smollm2}, context: 1k, concurrency: 8, load: startup}}"
    file.write_text(f"version: 1\nserver: {{listen: 127.0.0.1:0}}\nmodels: {{small: {model}}}\n")
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0


async def under_a_schema(client: openai.AsyncOpenAI, name: str, asked: dict[str, Any]) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMAS[name], "strict": True}}
    answer = await client.chat.completions.create(**asked, response_format=form)
    assert answer.choices[0].finish_reason == "stop", answer.choices[0]
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SCHEMAS[name])


async def with_a_call(client: openai.AsyncOpenAI, choice: Any, asked: dict[str, Any]) -> None:
    answer = await client.chat.completions.create(**asked, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    assert answer.choices[0].finish_reason in ("tool_calls", "stop"), answer.choices[0]
    calls = answer.choices[0].message.tool_calls
    assert calls
    for call in calls:
        assert call.type == "function"
        assert choice == "required" or choice["function"]["name"] == call.function.name
        jsonschema.validate(json.loads(call.function.arguments), PARAMETERS[call.function.name])


def questions(client: openai.AsyncOpenAI) -> Iterator[Awaitable[None]]:
    """Without end: every schema, a call of any tool, and one of each tool by its name, in turns."""
    named = [{"type": "function", "function": {"name": name}} for name in PARAMETERS]
    calls = [(with_a_call, choice) for choice in ("required", *named)]
    schemas = [(under_a_schema, name) for name in SCHEMAS]
    kinds: list[tuple[Any, Any]] = [each for pair in zip_longest(calls, schemas) for each in pair if each is not None]
    for n, (kind, what), prompt in zip(count(), cycle(kinds), cycle(PROMPTS), strict=False):
        messages = [{"role": "user", "content": prompt}]
        asked = {"model": "small", "messages": messages, "temperature": 1.0, "seed": n, "max_tokens": 300}
        yield kind(client, what, asked)


async def ask(up: Up, times: int) -> None:
    client = openai.AsyncOpenAI(base_url=f"{up.url}/v1", api_key="any", max_retries=0, timeout=3000)
    waiting = islice(questions(client), times)

    async def some() -> None:
        for question in waiting:
            await question

    async with client, asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(some())


async def test_what_is_forced_validates(small: Up) -> None:
    await ask(small, 3)


@pytest.mark.proof
async def test_two_hundred_of_two_hundred_forced_answers_validate(small: Up) -> None:
    await ask(small, 200)


def test_the_text_of_a_custom_tool_follows_its_regular_expression(small: Up) -> None:
    grammar = {"syntax": "regex", "definition": '[A-Z]{2}-[0-9]{3}|"none"'}
    form: Any = {"type": "grammar", "grammar": grammar}
    answer = small.client().chat.completions.create(
        model="small", messages=[{"role": "user", "content": "Which flight?"}], max_tokens=80, seed=1,
        tools=[{"type": "custom", "custom": {"name": "flight", "format": form}}],
        tool_choice={"type": "custom", "custom": {"name": "flight"}},
    )  # fmt: skip
    (call,) = answer.choices[0].message.tool_calls or ()
    assert call.type == "custom"
    assert re.fullmatch(grammar["definition"], call.custom.input)


SUM = 'start: NUM ("+" NUM){1,3} "\\n" "= " NUM\nNUM: /[1-9][0-9]{0,2}/'


def test_the_text_of_a_custom_tool_follows_its_lark_grammar(small: Up) -> None:
    form: Any = {"syntax": "lark", "definition": SUM}
    client, asked = small.client(), "What is 12 and 30?"
    answer = client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": asked}], max_tokens=80, seed=1,
        tools=[{"type": "custom", "custom": {"name": "sum", "format": {"type": "grammar", "grammar": form}}}],
        tool_choice={"type": "custom", "custom": {"name": "sum"}},
    )  # fmt: skip
    (call,) = answer.choices[0].message.tool_calls or ()
    assert call.type == "custom"
    custom: Any = {"type": "custom", "name": "sum", "format": {"type": "grammar", **form}}
    with client.responses.stream(
        model="small", input=asked, max_output_tokens=80, tools=[custom], tool_choice="required"
    ) as stream:
        response = stream.get_final_response()
    (item,) = response.output
    assert item.type == "custom_tool_call"
    for text in (call.custom.input, item.input):
        assert re.fullmatch(r"[1-9]\d{0,2}(\+[1-9]\d{0,2}){1,3}\n= [1-9]\d{0,2}", text), text


class City(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(max_length=24)]
    inhabitants: Annotated[int, pydantic.Field(ge=0, le=10**8)]


ASKED: Any = {"model": "small", "temperature": 1.0}
MESSAGES: Any = [{"role": "user", "content": "Name a city."}]
CITY: Any = openai.pydantic_function_tool(City)
CITY_FLAT: Any = {"type": "function", **CITY["function"]}


def chat_stream(client: openai.OpenAI, **form: Any) -> Any:
    with client.chat.completions.stream(**ASKED, messages=MESSAGES, max_completion_tokens=80, **form) as stream:
        return stream.until_done().get_final_completion().choices[0].message


def chat_parse(client: openai.OpenAI, **form: Any) -> Any:
    answer = client.chat.completions.parse(**ASKED, messages=MESSAGES, max_completion_tokens=80, **form)
    return answer.choices[0].message


def responses_stream(client: openai.OpenAI, **form: Any) -> Any:
    with client.responses.stream(**ASKED, input="Name a city.", max_output_tokens=80, **form) as stream:
        return stream.until_done().get_final_response()


def responses_parse(client: openai.OpenAI, **form: Any) -> Any:
    return client.responses.parse(**ASKED, input="Name a city.", max_output_tokens=80, **form)


FORCED = {"tool_choice": "required", "parallel_tool_calls": False}
HELPERS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "a chat's text, streamed": (chat_stream, {"response_format": City}, lambda said: said.parsed),
    "a chat's text": (chat_parse, {"response_format": City}, lambda said: said.parsed),
    "a chat's call, streamed": (
        chat_stream, {"tools": [CITY], **FORCED}, lambda said: said.tool_calls[0].function.parsed_arguments,
    ),
    "a chat's call": (
        chat_parse, {"tools": [CITY], **FORCED}, lambda said: said.tool_calls[0].function.parsed_arguments,
    ),
    "a response's text, streamed": (responses_stream, {"text_format": City}, lambda said: said.output_parsed),
    "a response's text": (responses_parse, {"text_format": City}, lambda said: said.output_parsed),
    "a response's call, streamed": (
        responses_stream, {"tools": [CITY_FLAT], **FORCED}, lambda said: said.output[0].parsed_arguments,
    ),
    "a response's call": (
        responses_parse, {"tools": [CITY_FLAT], **FORCED}, lambda said: said.output[0].parsed_arguments,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("helper", "form", "parsed"), HELPERS.values(), ids=HELPERS.keys())
def test_the_official_client_parses_what_it_asked_for(
    small: Up, helper: Any, form: dict[str, Any], parsed: Any
) -> None:
    found = parsed(helper(small.client(), **form))
    if not isinstance(found, City):
        City.model_validate(found)  # a tool that was not sent as `pydantic_function_tool` made it
