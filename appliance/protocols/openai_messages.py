"""OpenAI's `messages` as our turns: roles, content parts, calls an assistant made and their results."""

from collections.abc import Callable
from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.custom_tools import arguments_of
from appliance.vocab.request import Message, ToolCall


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Custom(msgspec.Struct):
    name: str
    input: str


class _Call(msgspec.Struct):
    id: str
    function: _Function | None = None
    custom: _Custom | None = None
    type: str = "function"


class ChatMessage(msgspec.Struct):
    """A message as clients send it, whole SDK objects included."""

    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: _Function | None = None
    prefix: bool | None = None


def to_messages(name: str, messages: list[ChatMessage]) -> tuple[Message, ...]:
    """The turns, checked. Raises BadRequest naming the JSON path, Unsupported for what is not text."""
    if not messages:
        raise BadRequest(f"`{name}` must hold at least one message", param=name)
    if messages[-1].prefix and messages[-1].role != "assistant":
        place = f"{name}[{len(messages) - 1}].prefix"
        raise BadRequest(f"`{place}`: only an assistant message can be continued", param=place)
    return tuple(_message(f"{name}[{at}]", message) for at, message in enumerate(messages))


def _message(place: str, message: ChatMessage) -> Message:
    build = _ROLES.get(message.role)
    if build is None:
        raise BadRequest(
            f"`{place}.role` must be one of {', '.join(_ROLES)}, got {message.role[:40]!r}", param=f"{place}.role"
        )
    return build(place, message)


def _spoken(place: str, message: ChatMessage) -> Message:
    if message.content is None or message.content == []:
        raise BadRequest(f"`{place}.content` must be a string or a non-empty list of parts", param=f"{place}.content")
    role: Any = "system" if message.role == "developer" else message.role
    return Message(role=role, content=_text(place, message), name=message.name)


def _assistant(place: str, message: ChatMessage) -> Message:
    content = _text(place, message)
    thought = message.reasoning if message.reasoning_content is None else message.reasoning_content
    calls = tuple(_call(f"{place}.tool_calls[{at}]", call) for at, call in enumerate(message.tool_calls or ()))
    if (called := message.function_call) is not None:
        calls = (*calls, ToolCall(id=_only(called.name), name=called.name, arguments=called.arguments))
    if content is None and not calls:
        content = message.refusal if message.refusal is not None else thought and ""
        if content is None:
            raise BadRequest(
                f"`{place}.content` is required on an assistant message without `tool_calls`",
                param=f"{place}.content",
            )
    return Message(
        role="assistant",
        content=content,
        name=message.name,
        tool_calls=calls,
        reasoning=thought,
        prefix=bool(message.prefix),
    )


def _result(place: str, message: ChatMessage) -> Message:
    if not message.tool_call_id:
        raise BadRequest(f"`{place}.tool_call_id` is required on a tool message", param=f"{place}.tool_call_id")
    if message.content is None:
        raise BadRequest(f"`{place}.content` is required on a tool message", param=f"{place}.content")
    content = _text(place, message) or ""
    return Message(role="tool", content=content, name=message.name, tool_call_id=message.tool_call_id)


def _function_result(place: str, message: ChatMessage) -> Message:
    if not message.name:
        raise BadRequest(f"`{place}.name` is required on a function message", param=f"{place}.name")
    content = _text(place, message) or ""
    return Message(role="tool", content=content, name=message.name, tool_call_id=_only(message.name))


def _only(name: str) -> str:
    """The id of a function's call, from before calls had ids."""
    return f"call_{name}"


def _call(place: str, call: _Call) -> ToolCall:
    match call:
        case _Call(type="function", function=_Function(name, arguments)):
            return ToolCall(id=call.id, name=name, arguments=arguments)
        case _Call(type="custom", custom=_Custom(name, text)):
            return ToolCall(id=call.id, name=name, arguments=arguments_of(text))
        case _Call(type="function" | "custom"):
            raise BadRequest(f"`{place}.{call.type}` is required", param=f"{place}.{call.type}")
        case _:
            raise Unsupported(
                f"`{place}.type` must be 'function' or 'custom', got {call.type[:40]!r}", param=f"{place}.type"
            )


def _text(place: str, message: ChatMessage) -> str | None:
    """Parts joined by a newline each: clients use them as paragraphs."""
    match message.content:
        case None | []:
            return None
        case str() as text:
            return text
        case parts:
            return "\n".join(_part(f"{place}.content[{at}]", part) for at, part in enumerate(parts))


def _part(place: str, part: _Part) -> str:
    match part:
        case _Part(type="text", text=str(text)):
            return text
        case _Part(type="refusal", refusal=str(text)):
            return text
        case _Part(type="text" | "refusal" as field):
            raise BadRequest(f"`{place}.{field}` is required", param=f"{place}.{field}")
        case _Part(type=kind) if kind in _OTHER_MEDIA:
            raise Unsupported(
                f"`{place}.{kind}` is {_OTHER_MEDIA[kind]}, and this model takes text only", param=f"{place}.{kind}"
            )
        case _:
            raise BadRequest(
                f"`{place}.type` must be 'text' or 'refusal', got {part.type[:40]!r}", param=f"{place}.type"
            )


_ROLES: dict[str, Callable[[str, ChatMessage], Message]] = {
    "system": _spoken,
    "developer": _spoken,
    "user": _spoken,
    "assistant": _assistant,
    "tool": _result,
    "function": _function_result,
}

_OTHER_MEDIA = {
    "image_url": "an image",
    "input_image": "an image",
    "image": "an image",
    "input_audio": "audio",
    "video_url": "a video",
    "file": "a file",
}
