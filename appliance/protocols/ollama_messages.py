"""Ollama's messages as our turns. Its calls have no ids: results belong to calls by name, or else by order."""

from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.vocab.request import Message, ToolCall


class _Function(msgspec.Struct):
    name: str
    arguments: dict[str, Any] = {}


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class ChatMessage(msgspec.Struct):
    """A message as clients send it."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def to_messages(name: str, messages: list[ChatMessage]) -> tuple[Message, ...]:
    """The turns. Raises BadRequest naming the JSON path, Unsupported for images."""
    open_calls: list[ToolCall] = []
    turns: list[Message] = []
    for at, message in enumerate(messages):
        place = f"{name}[{at}]"
        if message.images:
            raise Unsupported(f"`{place}.images` is not supported: this model takes text only", param=place)
        turn = _turn(place, message, open_calls, len(turns))
        open_calls += turn.tool_calls
        turns.append(turn)
    return tuple(turns)


def _turn(place: str, message: ChatMessage, open_calls: list[ToolCall], at: int) -> Message:
    match message.role:
        case "system" | "user" as role:
            return Message(role=role, content=message.content or "")
        case "assistant":
            calls = enumerate(message.tool_calls or ())
            return Message(
                role="assistant",
                content=message.content,
                reasoning=message.thinking,
                tool_calls=tuple(_call(call, f"call_{at}_{number}") for number, call in calls),
            )
        case "tool":
            id = message.tool_call_id or _answered(message.tool_name, open_calls)
            return Message(role="tool", content=message.content or "", name=message.tool_name, tool_call_id=id)
        case _:
            raise BadRequest(
                f"`{place}.role` must be one of system, user, assistant, tool, got {message.role[:40]!r}",
                param=f"{place}.role",
            )


def _call(call: _Call, id: str) -> ToolCall:
    function = call.function
    return ToolCall(id=call.id or id, name=function.name, arguments=msgspec.json.encode(function.arguments).decode())


def _answered(name: str | None, open_calls: list[ToolCall]) -> str | None:
    """The call this is the result of, which is then no longer open."""
    call = next((call for call in open_calls if name in (None, call.name)), None)
    if call is None:
        return None
    open_calls.remove(call)
    return call.id
