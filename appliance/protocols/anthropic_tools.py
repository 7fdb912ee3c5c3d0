"""Anthropic's `tools` and `tool_choice`: which functions the model gets to see."""

from typing import Any

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.openai_tools import ToolChoice, checked_name, checked_schema, named
from appliance.vocab.request import Tool

HOSTED: dict[str, str | None] = {
    "web_search": None,
    "web_fetch": None,
    "code_execution": None,
    "advisor": None,
    "tool_search_tool": None,
    "mcp_toolset": None,
    "bash": "give it a schema of its own, as a tool without `type`",
    "text_editor": "give it a schema of its own, as a tool without `type`",
    "computer": "it needs a model that sees",
    "browser": "it needs a model that sees",
    "memory": "give it a schema of its own, as a tool without `type`",
}
"""Tools of Anthropic's own, by the beginning of their type: None are left out, as their server would run them and the
answer can do without; for the others the reason why they are refused.
"""


class ToolParam(msgspec.Struct):
    """A tool as clients send it."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    cache_control: Any = None


class Choice(msgspec.Struct):
    """`tool_choice`."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Tools(msgspec.Struct, frozen=True):
    """The functions, and the places of the tools that were left out."""

    shown: tuple[Tool, ...] = ()
    left_out: tuple[str, ...] = ()


def to_tools(name: str, tools: list[ToolParam]) -> Tools:
    """The functions, their schemas checked. Raises BadRequest naming the JSON path, Unsupported."""
    seen: set[str] = set()
    shown: list[Tool] = []
    left_out: list[str] = []
    for at, tool in enumerate(tools):
        read = checked_tool(f"{name}[{at}]", tool, seen)
        if isinstance(read, str):
            left_out.append(read)
        else:
            shown.append(read)
    return Tools(tuple(shown), tuple(left_out))


def checked_tool(place: str, tool: ToolParam, seen: set[str]) -> Tool | str:
    """The function, its name then among those `seen`; of a tool that is left out its place. Raises as `to_tools`."""
    if tool.type in (None, "custom"):
        return _tool(place, tool, seen)
    return _hosted(place, tool.type or "")


def choice(choice: Choice | None) -> str | ToolChoice | None:
    """The choice in OpenAI's form. Raises BadRequest."""
    match choice:
        case None:
            return None
        case Choice(type="auto" | "none" as word):
            return word
        case Choice(type="any"):
            return "required"
        case Choice(type="tool", name=str(name)):
            return named(name)
        case _:
            raise BadRequest("`tool_choice.type` must be auto, any, none, or tool with a `name`", param="tool_choice")


def _tool(place: str, tool: ToolParam, seen: set[str]) -> Tool:
    if tool.name is None:
        raise BadRequest(f"`{place}.name` is required", param=f"{place}.name")
    return Tool(
        name=checked_name(f"{place}.name", tool.name, seen),
        description=tool.description or "",
        parameters=checked_schema(f"{place}.input_schema", tool.input_schema),
        strict=bool(tool.strict),
        mark=bool(tool.cache_control),
    )


def _hosted(place: str, kind: str) -> str:
    known = next((start for start in HOSTED if kind.startswith(start)), None)
    if known is None:
        raise Unsupported(f"`{place}.type` {kind[:40]!r} is not supported", param=f"{place}.type")
    if (why := HOSTED[known]) is not None:
        raise Unsupported(f"`{place}.type` {kind[:40]!r} is not supported: {why}", param=f"{place}.type")
    return f"{place}:{kind[:40]}"
