"""How tools, calls and results are put to a model whose template knows none: as plain text."""

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from appliance.text.dialects.format import ToolFormat, Write
from appliance.text.dialects.json import FORMAT as GENERIC
from appliance.text.dialects.json import write
from appliance.text.json_body import loads
from appliance.vocab.request import Message, Tool
from appliance.vocab.spec import ChatPrompt

_TOLD = """You can call functions. These are they, one JSON object a line:
{tools}

To call a function, answer with nothing but this, on lines of its own:
{form}
Call several functions with several of these. Their results come in the next message.
If no function helps, answer in plain text."""


def in_words(prompt: ChatPrompt) -> ChatPrompt:
    """The same with its tools told in the system text, calls and results as text of the assistant and the user."""
    first, *rest = _in_turn(map(result_line, (_worded(message) for message in prompt.messages)))
    if first.role != "system":
        first, rest = Message(role="system"), [first, *rest]
    messages = (replace(first, content=joined(first.content, told(prompt.tools, GENERIC))), *rest)
    return replace(prompt, messages=messages, tools=(), recipe=False)


def told(tools: Sequence[Tool], format: ToolFormat) -> str:
    """Text for the system prompt that tells which tools there are and how to call them."""
    lines = (
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}, ensure_ascii=False
        )
        for tool in tools
    )
    form = _writer(format)([("<the function's name>", {"<parameter>": "<value>"})])
    return _TOLD.format(tools="\n".join(lines), form=form)


def call_lines(message: Message, format: ToolFormat) -> str:
    """The calls of a message as the format writes them."""
    return _writer(format)([(call.name, _loaded(call.arguments)) for call in message.tool_calls])


def result_line(message: Message) -> Message:
    """A result as a turn of the user."""
    if message.role != "tool":
        return message
    return Message(role="user", content=f"Result of the call: {message.content or ''}")


def joined(first: str | None, second: str | None) -> str:
    """Both texts, a blank line between them."""
    return "\n\n".join(part for part in (first, second) if part)


def _worded(message: Message) -> Message:
    calls = call_lines(message, GENERIC) if message.tool_calls else ""
    return replace(message, content=joined(message.content, calls), tool_calls=()) if calls else message


def _writer(format: ToolFormat) -> Write:
    return format.write or write


def _loaded(arguments: str) -> object:
    try:
        return loads(arguments)
    except ValueError:
        return arguments


def _in_turn(messages: Iterable[Message]) -> Iterator[Message]:
    """Results and what the user says after them are one turn: most templates want users and assistants in turn."""
    last: Message | None = None
    for message in messages:
        if last is not None and last.role == message.role == "user":
            last = replace(last, content=joined(last.content, message.content))
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last
