"""The tools of the Responses API: which functions the model is shown for them, and what their calls are called."""

from typing import Any, Literal

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.custom_tools import Format, custom_tool
from appliance.protocols.openai_tools import ToolChoice, allowed, checked_name, checked_schema, named
from appliance.vocab.request import Tool

HOSTED: dict[str, str | None] = {
    "web_search": None,
    "image_generation": None,
    "tool_search": None,
    "programmatic_tool_calling": None,
    "file_search": "this server keeps no files to search",
    "code_interpreter": "this server runs no code",
    "computer": "it needs a model that sees",
    "mcp": "this server calls no others",
    "local_shell": "offer the shell as a function",
    "shell": "offer the shell as a function",
    "apply_patch": "offer it as a function or custom tool",
}
"""Tools of OpenAI's own, by the beginning of their type: None are left out, as their server would run them and the
answer can do without; for the others the reason why they are refused.
"""


class ToolParam(msgspec.Struct):
    """A tool as clients send it; a namespace holds others."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    format: Format | None = None
    tools: "list[ToolParam] | None" = None


class _Reference(msgspec.Struct):
    type: str
    name: str | None = None


class Choice(msgspec.Struct):
    """The object form of `tool_choice`."""

    type: str
    name: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Reference] = []


class Callee(msgspec.Struct, frozen=True):
    """What a client calls a function the model was shown."""

    name: str
    namespace: str | None = None
    custom: bool = False


class Tools(msgspec.Struct, frozen=True):
    """The functions, what clients call them, and the places of the tools that were left out."""

    shown: tuple[Tool, ...] = ()
    callees: dict[str, Callee] = {}
    left_out: tuple[str, ...] = ()


def full_name(namespace: str | None, name: str) -> str:
    """The one name the model knows a tool of a namespace by."""
    if not namespace:
        return name
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


def to_tools(name: str, tools: list[ToolParam]) -> Tools:
    """The functions, their schemas checked. Raises BadRequest naming the JSON path, Unsupported."""
    seen: set[str] = set()
    shown: list[Tool] = []
    callees: dict[str, Callee] = {}
    left_out: list[str] = []
    for place, namespace, tool in _flat(name, tools):
        if tool.type not in ("function", "custom"):
            left_out.append(_hosted(name, place, tool.type))
            continue
        short = tool.name or ""
        whole = checked_name(f"{place}.name", full_name(namespace, short), seen)
        shown.append(_tool(place, whole, tool))
        callees[whole] = Callee(short, namespace, tool.type == "custom")
    return Tools(tuple(shown), callees, tuple(left_out))


def choice(choice: str | Choice | None) -> str | ToolChoice | None:
    """The choice in chat's form. Raises BadRequest."""
    match choice:
        case Choice(type="function" | "custom", name=str(name)):
            return named(name)
        case Choice(type="allowed_tools"):
            return allowed(choice.mode, (tool.name or "" for tool in choice.tools))
        case Choice():
            raise BadRequest(
                "`tool_choice` must be 'none', 'auto', 'required', a function, a custom tool or allowed_tools",
                param="tool_choice",
            )
        case _:
            return choice


def _flat(name: str, tools: list[ToolParam]) -> list[tuple[str, str | None, ToolParam]]:
    """All tools with their place and namespace."""
    flat: list[tuple[str, str | None, ToolParam]] = []
    for at, tool in enumerate(tools):
        place = f"{name}[{at}]"
        if tool.type == "namespace":
            inner = enumerate(tool.tools or ())
            flat += [(f"{place}.tools[{inside}]", tool.name, each) for inside, each in inner]
        else:
            flat.append((place, None, tool))
    return flat


def _tool(place: str, name: str, tool: ToolParam) -> Tool:
    if tool.type == "custom":
        return custom_tool(place, name, tool.description, tool.format)
    return Tool(
        name=name,
        description=tool.description or "",
        parameters=checked_schema(f"{place}.parameters", tool.parameters),
        strict=bool(tool.strict),
    )


def _hosted(name: str, place: str, kind: str) -> str:
    known = next((start for start in HOSTED if kind.startswith(start)), None)
    why = "there is no such tool here" if known is None else HOSTED[known]
    if why is not None:
        raise Unsupported(f"`{place}.type` {kind[:40]!r} is not supported: {why}", param=name)
    return f"{place}:{kind[:40]}"
