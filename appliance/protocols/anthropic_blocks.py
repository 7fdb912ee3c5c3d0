"""Anthropic's turns as ours: content blocks become text, calls, results and reasoning."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.anthropic_changes import Change, change
from appliance.protocols.turns import joined, tidy
from appliance.vocab.request import Message, ToolCall

_BILLING = "x-anthropic-billing-header:"
"""Begins a system block in which one agent counts its requests: it says nothing to a model, and being different
every time it would keep prompts from sharing a prefix.
"""


class Block(msgspec.Struct):
    """A content block of any type, with the keys we read."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    tool_name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: "str | list[Block] | None" = None
    is_error: bool | None = None
    title: str | None = None
    source: Any = None
    tool: Any = None
    tool_changes: "list[Block] | None" = None
    cache_control: Any = None


class Turn(msgspec.Struct):
    """A message as clients send it."""

    role: str
    content: str | list[Block]


class Talk(msgspec.Struct, frozen=True):
    """The turns, and what they say of the request's tools."""

    messages: tuple[Message, ...]
    changes: tuple[Change, ...]


def to_talk(name: str, turns: list[Turn]) -> Talk:
    """Both. Raises BadRequest naming the JSON path, Unsupported for what is not text."""
    return Talk(_messages(name, turns), tuple(_changes(name, turns)))


def _changes(name: str, turns: list[Turn]) -> Iterator[Change]:
    for at, turn in enumerate(turns):
        for inside, block in enumerate(turn.content if isinstance(turn.content, list) else ()):
            place = f"{name}[{at}].content[{inside}]"
            said = [(place, block)]
            said += [(f"{place}.tool_changes[{n}]", each) for n, each in enumerate(block.tool_changes or ())]
            for where, each in said:
                if each.type in _CHANGES and (found := _change(where, each)) is not None:
                    yield found


def _messages(name: str, turns: list[Turn]) -> tuple[Message, ...]:
    """The turns, tidied."""
    if not turns:
        raise BadRequest(f"`{name}` must hold at least one message", param=name)
    messages: list[Message] = []
    for at, turn in enumerate(turns):
        if (build := _ROLES.get(turn.role)) is None:
            raise BadRequest(
                f"`{name}[{at}].role` must be one of {', '.join(_ROLES)}, got {turn.role[:40]!r}",
                param=f"{name}[{at}].role",
            )
        blocks = [Block(type="text", text=turn.content)] if isinstance(turn.content, str) else turn.content
        built = list(build(f"{name}[{at}].content", blocks))
        if any(block.cache_control for block in blocks) and built:
            built[-1] = msgspec.structs.replace(built[-1], mark=True)
        messages += built
    return tidy(messages)


def to_system(name: str, system: str | list[Block]) -> Message:
    """The system message, with the ends of blocks that are marked. Raises BadRequest, Unsupported."""
    if isinstance(system, str):
        return Message(role="system", content=system)
    content, parts = "", list[int]()
    for place, block in _told(name, system):
        text = _text(place, block)
        if not text.startswith(_BILLING):
            content += f"\n{text}" if content else text
        if block.cache_control and content:
            parts.append(len(content))
    return Message(role="system", content=content, parts=tuple(parts))


def _user(place: str, blocks: list[Block]) -> Iterator[Message]:
    """Results come before what the user says: they belong to the turn before."""
    texts: list[str] = []
    results: list[Message] = []
    for at, block in _told(place, blocks):
        if block.type == "tool_result":
            results.append(_result(at, block))
        else:
            texts.append(_text(at, block))
    yield from results
    if texts or not results:
        yield Message(role="user", content="\n".join(texts))


def _assistant(place: str, blocks: list[Block]) -> Iterator[Message]:
    texts: list[str] = []
    calls: list[ToolCall] = []
    thoughts: list[str] = []
    for at, block in _told(place, blocks):
        match block:
            case Block(type="tool_use"):
                calls.append(_call(at, block))
            case Block(type="thinking"):
                thoughts.append(block.thinking or "")
            case Block(type="redacted_thinking"):
                pass
            case _:
                texts.append(_text(at, block))
    content = "\n".join(texts) if texts or not calls else None
    yield Message(role="assistant", content=content, tool_calls=tuple(calls), reasoning=joined(*thoughts))


def _system(place: str, blocks: list[Block]) -> Iterator[Message]:
    if (message := to_system(place, blocks)).content:
        yield message


_ROLES: dict[str, Callable[[str, list[Block]], Iterator[Message]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
}


def _call(place: str, block: Block) -> ToolCall:
    if block.id is None or block.name is None:
        missing = "id" if block.id is None else "name"
        raise BadRequest(f"`{place}.{missing}` is required", param=f"{place}.{missing}")
    if not isinstance(block.input, dict | None):
        raise BadRequest(f"`{place}.input` must be an object", param=f"{place}.input")
    return ToolCall(id=block.id, name=block.name, arguments=msgspec.json.encode(block.input or {}).decode())


def _result(place: str, block: Block) -> Message:
    if block.tool_use_id is None:
        raise BadRequest(f"`{place}.tool_use_id` is required", param=f"{place}.tool_use_id")
    content = _content(f"{place}.content", block.content)
    if block.is_error:
        content = f"Error: {content}"
    return Message(role="tool", content=content, tool_call_id=block.tool_use_id)


def _content(place: str, content: str | list[Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_text(at, block) for at, block in _told(place, content))


def _text(place: str, block: Block) -> str:
    match block:
        case Block(type="text", text=str(text)):
            return text
        case Block(type="text"):
            raise BadRequest(f"`{place}.text` is required", param=f"{place}.text")
        case Block(type="document", source={"type": "text", "data": str(text)}):
            return joined(block.title, text) or ""
        case Block(type="search_result"):
            return joined(block.title, _content(f"{place}.content", block.content)) or ""
        case Block(type="tool_reference", tool_name=str(name)):
            return f"{name} can be called now"
        case Block(type="compaction", content=str(summary)):
            return summary
        case Block(type=kind) if kind in _CHANGES:
            found = _change(place, block)
            return "" if found is None else found.words()
        case Block(type=kind) if kind in _OTHER_MEDIA:
            raise Unsupported(
                f"`{place}.source` is {_OTHER_MEDIA[kind]}, and this model takes text only", param=f"{place}.source"
            )
        case _:
            raise BadRequest(f"`{place}.type` cannot be {block.type[:40]!r} here", param=f"{place}.type")


def _change(place: str, block: Block) -> Change | None:
    return change(f"{place}.tool", block.tool, offered=_CHANGES[block.type])


def _told(place: str, blocks: list[Block]) -> Iterator[tuple[str, Block]]:
    """Those that say something, with their places."""
    for at, block in enumerate(blocks):
        if not _is_silent(f"{place}[{at}]", block):
            yield f"{place}[{at}]", block


def _is_silent(place: str, block: Block) -> bool:
    if block.type in _CHANGES:
        found = _change(place, block)
        return found is None or not found.words()
    return block.type in _SILENT or (block.type == "compaction" and block.content is None)


_SILENT = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "container_upload",
        "fallback",
        "mcp_tool_listing",
        "mcp_tool_result",
        "mcp_tool_use",
        "server_tool_use",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)
"""What hosted tools of other servers left in a conversation."""

_CHANGES = {"tool_addition": True, "tool_removal": False}
"""Blocks that say from where on a tool is offered, or is not."""

_OTHER_MEDIA = {"image": "an image", "document": "a document that is not plain text", "audio": "audio"}
