"""Items of the Responses API as our turns, one table row per type."""

from collections.abc import Callable
from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.custom_tools import arguments_of
from appliance.protocols.fields import misfit
from appliance.protocols.responses_tools import full_name
from appliance.protocols.turns import joined
from appliance.vocab.request import Message, ToolCall


class Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """An input item of any type, with the keys we read."""

    type: str = "message"
    role: str | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[Part] | None = None


def to_items(name: str, value: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input as items, as they were sent. Raises BadRequest."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    if not value:
        raise BadRequest(f"`{name}` must hold at least one item", param=name)
    return [{"type": "message", **item} for item in value]


def to_messages(name: str, items: list[dict[str, Any]]) -> list[Message]:
    """One turn per item that says something. Raises BadRequest naming the JSON path, Unsupported."""
    messages: list[Message] = []
    for at, raw in enumerate(items):
        place = f"{name}[{at}]"
        try:
            item = msgspec.convert(raw, Item)
        except msgspec.ValidationError as error:
            raise misfit(place, error) from error
        if item.type in _SILENT:
            continue
        if (read := _TYPES.get(item.type)) is None:
            raise Unsupported(f"`{place}.type` {item.type[:40]!r} is not supported", param=f"{place}.type")
        messages.append(read(place, item))
    return messages


def _message(place: str, item: Item) -> Message:
    role: Any = {"developer": "system"}.get(item.role or "", item.role)
    if role not in ("system", "user", "assistant"):
        raise BadRequest(f"`{place}.role` must be user, assistant, system or developer", param=f"{place}.role")
    if item.content is None:
        raise BadRequest(f"`{place}.content` is required", param=f"{place}.content")
    return Message(role=role, content=_text(f"{place}.content", item.content))


def _reasoning(place: str, item: Item) -> Message:
    parts = item.content or item.summary or ""
    return Message(role="assistant", reasoning=_text(f"{place}.content", parts))


def _function_call(place: str, item: Item) -> Message:
    return _called(place, item, _needed(place, "arguments", item.arguments))


def _custom_call(place: str, item: Item) -> Message:
    return _called(place, item, arguments_of(_needed(place, "input", item.input)))


def _called(place: str, item: Item, arguments: str) -> Message:
    id, name = _needed(place, "call_id", item.call_id), _needed(place, "name", item.name)
    call = ToolCall(id=id, name=full_name(item.namespace, name), arguments=arguments)
    return Message(role="assistant", tool_calls=(call,))


def _output(place: str, item: Item) -> Message:
    if item.output is None:
        raise BadRequest(f"`{place}.output` is required", param=f"{place}.output")
    id = _needed(place, "call_id", item.call_id)
    return Message(role="tool", content=_text(f"{place}.output", item.output), tool_call_id=id)


def _needed(place: str, key: str, value: str | None) -> str:
    if value is None:
        raise BadRequest(f"`{place}.{key}` is required", param=f"{place}.{key}")
    return value


_TYPES: dict[str, Callable[[str, Item], Message]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
}

_SILENT = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""What hosted tools of other servers left in a conversation."""


def _text(place: str, content: str | list[Part]) -> str:
    if isinstance(content, str):
        return content
    return joined(*(_part(f"{place}[{at}]", part) for at, part in enumerate(content))) or ""


def _part(place: str, part: Part) -> str:
    if part.type in _OTHER_MEDIA:
        key, what = _OTHER_MEDIA[part.type]
        raise Unsupported(f"`{place}{key}` is {what}, and this model takes text only", param=f"{place}{key}")
    if part.type not in _TEXTS:
        raise BadRequest(f"`{place}.type` must be one of {', '.join(_TEXTS)}", param=f"{place}.type")
    text = part.refusal if part.type == "refusal" else part.text
    return _needed(place, "text", text)


_TEXTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")
_OTHER_MEDIA = {
    "input_image": (".image_url", "an image"),
    "image_url": (".image_url", "an image"),
    "input_file": ("", "a file"),
    "input_audio": (".input_audio", "audio"),
}
"""What a model of text cannot take: the key it is under, and what it is."""
