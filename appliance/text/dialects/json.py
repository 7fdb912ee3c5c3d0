"""Bare or fenced objects `{"name": …, "arguments": {…}}`, for models without a format of their own.

The recipe asks for them in the system prompt.
"""

import json
from collections.abc import Sequence

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere, at_line
from appliance.text.reader import Reader, Steps
from appliance.vocab.request import Tool

_OPEN, _CLOSE, _OBJECT, _LIST, _FENCE = "<tool_call>", "</tool_call>", "{", "[", "```"

_RECIPE = """You can call functions. These are they, one JSON object a line:
{tools}

To call a function, answer with nothing but a JSON object on a line of its own, in this form:
{{"name": "<the function's name>", "arguments": {{<its parameters by name>}}}}
Call several functions with several such lines. Their results come in the next message.
If no function helps, answer in plain text."""


def recipe(tools: Sequence[Tool]) -> str:
    """Text for the system prompt that tells which tools there are and how to call them."""
    lines = (
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}, ensure_ascii=False
        )
        for tool in tools
    )
    return _RECIPE.format(tools="\n".join(lines))


def read(reader: Reader) -> Steps[None]:
    match reader.opener:
        case "<tool_call>":
            yield from json_body.calls(reader, _CLOSE)
        case "```":
            yield from reader.option("json")
            yield from json_body.calls(reader, _FENCE)
        case opener:
            reader.unread(opener)
            yield from json_body.calls(reader)


FORMAT = ToolFormat(
    name="json",
    aliases=("generic",),
    openers=(*anywhere(_OPEN), *at_line(_OBJECT, _LIST, _FENCE)),
    read=read,
    markers=(_CLOSE,),
)
