"""How a conversation with tools is put to a model whose template knows none: as plain text."""

import json
from collections.abc import Iterable

from msgspec.structs import replace

from appliance.text.dialects.json import recipe
from appliance.vocab.request import Message, ToolCall
from appliance.vocab.spec import ChatPrompt


def in_words(prompt: ChatPrompt) -> ChatPrompt:
    """The same with its tools told in the system text, calls and results as text of the assistant and the user."""
    told = recipe(prompt.tools)
    first, *rest = _in_turn(map(_worded, prompt.messages))
    if first.role != "system":
        first, rest = Message(role="system"), [first, *rest]
    messages = (replace(first, content=_joined(first.content, told)), *rest)
    return replace(prompt, messages=messages, tools=(), recipe=False)


def _worded(message: Message) -> Message:
    if message.role == "tool":
        return Message(role="user", content=f"Result of the call: {message.content or ''}")
    calls = "\n".join(map(_line, message.tool_calls))
    return replace(message, content=_joined(message.content, calls), tool_calls=()) if calls else message


def _line(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def _in_turn(messages: Iterable[Message]) -> Iterable[Message]:
    """Results and what the user says after them are one turn: most templates want users and assistants in turn."""
    last: Message | None = None
    for message in messages:
        if last is not None and last.role == message.role == "user":
            last = replace(last, content=_joined(last.content, message.content))
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _joined(first: str | None, second: str | None) -> str:
    return "\n\n".join(part for part in (first, second) if part)
