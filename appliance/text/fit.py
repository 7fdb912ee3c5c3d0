"""A conversation put as a chat template wants it: messages and variables fitted to the template's shape."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from appliance.text.dialects.format import ToolFormat
from appliance.text.heads import kept_apart
from appliance.text.json_body import loads
from appliance.text.reasoning.format import Reasoning
from appliance.text.recipe import call_lines, joined, result_line, told
from appliance.text.shape import Shape, call_id, tools_variables, with_descriptions
from appliance.vocab.request import Message, Tool, ToolCall

Change = Callable[[Iterable[Message]], Iterable[Message]]
Marked = Callable[[str], str]
"""What users and tools said, as it may stand between the template's own tags."""


def fit(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    shape: Shape,
    format: ToolFormat,
    thinking: Reasoning,
    *,
    continued: bool = False,
    mark: Marked = str,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages and the variables for `tools`. Where an answer is `continued`, the last message stays as it is."""
    changed: Iterable[Message] = [
        message if continued and message is messages[-1] else _canonical(message, tools, thinking)
        for message in messages
    ]
    changed = _named(changed)
    for change in _changes(shape, tools, format):
        changed = change(changed)
    dicts = list(_dicts(changed, shape, mark))
    described = [_described(tool, shape) for tool in tools]
    if shape.tools == "system" and tools:
        first, rest = (dicts[0], dicts[1:]) if dicts and dicts[0]["role"] == "system" else ({}, dicts)
        functions = json.dumps([tool["function"] for tool in described], ensure_ascii=False)
        dicts = [{"role": "system", "content": "", **first, "tools": functions}, *rest]
    return dicts, tools_variables(shape.tools, described, shape.no_tools)


def _changes(shape: Shape, tools: Sequence[Tool], format: ToolFormat) -> Iterator[Change]:
    """What must be done to the messages, in this order."""
    if shape.tools == "none" and tools:
        yield lambda messages: _with_system(messages, told(tools, format))
    if not shape.calls:
        yield lambda messages: (_worded(message, format) for message in messages)
    if not shape.results:
        yield lambda messages: map(result_line, messages)
    if not shape.system:
        yield _without_system
    if not shape.late:
        yield _early_system
    if not shape.turns:
        yield _in_turn
    if not shape.beside:
        yield _apart
    if not shape.parallel:
        yield _one_by_one


# --- history, the same whichever client sends it


def _canonical(message: Message, tools: Sequence[Tool], thinking: Reasoning) -> Message:
    """Reasoning is no part of the content, and arguments stand in their schema's order, as a grammar writes them."""
    if message.role != "assistant":
        return message
    content, reasoning = _parted(message.content, message.reasoning, thinking)
    orders = {tool.name: list(tool.parameters.get("properties", ())) for tool in tools}
    calls = tuple(replace(call, arguments=_ordered(call, orders)) for call in message.tool_calls)
    return replace(message, content=content, reasoning=reasoning or None, tool_calls=calls)


def _parted(content: str | None, reasoning: str | None, thinking: Reasoning) -> tuple[str | None, str | None]:
    """Some clients send back all the text they saw, tags included."""
    text = (content or "").lstrip()
    opened = next((tag for tag in thinking.open if text.startswith(tag)), None)
    if opened is None:
        return content, reasoning
    for close in thinking.close:
        thought, found, rest = text[len(opened) :].partition(close)
        if found:
            return rest.lstrip("\n"), reasoning or thought.strip()
    return content, reasoning


def _ordered(call: ToolCall, orders: Mapping[str, list[str]]) -> str:
    try:
        given = loads(call.arguments)
    except ValueError:
        return call.arguments
    if not isinstance(given, dict):
        return call.arguments
    order = [key for key in orders.get(call.name, ()) if key in given]
    return json.dumps({key: given[key] for key in (*order, *given)}, ensure_ascii=False)


def _named(messages: Iterable[Message]) -> Iterator[Message]:
    """Results with the name of the tool they came from: some templates show it."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and message.name is None and message.tool_call_id in names:
            yield replace(message, name=names[message.tool_call_id])
        else:
            yield message


# --- what a template does not take


def _with_system(messages: Iterable[Message], text: str) -> list[Message]:
    first, *rest = [*messages] or [Message(role="system")]
    if first.role != "system":
        first, rest = Message(role="system"), [first, *rest]
    return [replace(first, content=joined(first.content, text)), *rest]


def _worded(message: Message, format: ToolFormat) -> Message:
    if not message.tool_calls:
        return message
    return replace(message, content=joined(message.content, call_lines(message, format)), tool_calls=())


def _without_system(messages: Iterable[Message]) -> list[Message]:
    """The system's text begins the first turn of the user."""
    first, *rest = messages
    if first.role != "system":
        return [first, *rest]
    if rest and rest[0].role == "user":
        return [replace(rest[0], content=joined(first.content, rest[0].content)), *rest[1:]]
    return [Message(role="user", content=first.content), *rest]


def _early_system(messages: Iterable[Message]) -> Iterator[Message]:
    for place, message in enumerate(messages):
        if place and message.role == "system":
            yield Message(role="user", content=f"<system>\n{message.content}\n</system>")
        else:
            yield message


def _in_turn(messages: Iterable[Message]) -> Iterator[Message]:
    last: Message | None = None
    for message in messages:
        if last is not None and last.role == message.role != "tool" and not last.tool_calls:
            last = replace(
                last,
                content=joined(last.content, message.content),
                reasoning=joined(last.reasoning, message.reasoning) or None,
                tool_calls=message.tool_calls,
            )
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _apart(messages: Iterable[Message]) -> Iterator[Message]:
    """What was said beside calls is a turn of its own."""
    for message in messages:
        if message.tool_calls and message.content:
            yield replace(message, tool_calls=())
            yield replace(message, content=None, reasoning=None)
        else:
            yield message


def _one_by_one(messages: Iterable[Message]) -> Iterator[Message]:
    """Each call is followed by its own result."""
    waiting: list[Message] = []
    for message in messages:
        if waiting and message.role == "tool":
            at = next((i for i, w in enumerate(waiting) if w.tool_calls[0].id == message.tool_call_id), 0)
            yield waiting.pop(at)
            yield message
            continue
        yield from waiting
        waiting = []
        if len(message.tool_calls) > 1:
            waiting = [replace(message, tool_calls=(call,)) for call in message.tool_calls]
            waiting[1:] = [replace(other, content=None, reasoning=None) for other in waiting[1:]]
        else:
            yield message
    yield from waiting


# --- as templates read them


def _dicts(messages: Iterable[Message], shape: Shape, mark: Marked) -> Iterator[dict[str, Any]]:
    ids: dict[str, str] = {}
    for message in messages:
        for call in message.tool_calls:
            ids[call.id] = call_id(shape.ids, call.id, call.name, len(ids))
        yield _dict(message, shape, ids, mark)


def _dict(message: Message, shape: Shape, ids: Mapping[str, str], mark: Marked) -> dict[str, Any]:
    content = message.content or ("" if not message.tool_calls else shape.empty)
    if content and message.role in ("user", "tool"):
        content = kept_apart(mark(content), message.role, shape.heads, mark)
    out: dict[str, Any] = {"role": message.role, "content": content}
    if message.name is not None:
        out["name"] = message.name
    if message.reasoning is not None:
        out |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
    if message.tool_call_id is not None:
        out["tool_call_id"] = ids.get(message.tool_call_id, message.tool_call_id)
    if message.tool_calls:
        out["tool_calls"] = [_call(call, shape, ids) for call in message.tool_calls]
    return out


def _call(call: ToolCall, shape: Shape, ids: Mapping[str, str]) -> dict[str, Any]:
    arguments: Any = call.arguments
    if shape.arguments == "mapping":
        with suppress(ValueError):  # what is no JSON stays text
            arguments = loads(call.arguments)
    return {"id": ids[call.id], "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _described(tool: Tool, shape: Shape) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    shown = {"type": "function", "function": function}
    return with_descriptions(shown) if shape.described else shown
