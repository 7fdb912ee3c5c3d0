"""OpenAI's `tools`, `tool_choice` and `parallel_tool_calls`: which functions the model gets to see."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.custom_tools import Format, custom_tool
from appliance.protocols.fields import check_depth
from appliance.protocols.tool_schema import check_schema
from appliance.vocab.request import Tool

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Function(msgspec.Struct):
    """A function as clients describe it."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Custom(msgspec.Struct):
    """A tool whose input is one text, as clients describe it."""

    name: str
    description: str | None = None
    format: Format | None = None


class ToolParam(msgspec.Struct):
    """A tool as clients send it."""

    type: str
    function: Function | None = None
    custom: Custom | None = None


class Named(msgspec.Struct):
    """The choice of one by its name."""

    name: str


class _Reference(msgspec.Struct):
    type: str
    function: Named | None = None
    custom: Named | None = None

    @property
    def name(self) -> str:
        """The tool's, empty where none is named."""
        named = self.custom if self.type == "custom" else self.function
        return named.name if named is not None else ""


class _Allowed(msgspec.Struct):
    mode: Literal["auto", "required"]
    tools: list[_Reference]


class ToolChoice(msgspec.Struct):
    """The object form of `tool_choice`."""

    type: str
    function: Named | None = None
    custom: Named | None = None
    allowed_tools: _Allowed | None = None


class Offered(msgspec.Struct, frozen=True):
    """The functions the model is shown, and which of them are custom tools to the client."""

    shown: tuple[Tool, ...] = ()
    custom: frozenset[str] = frozenset()


def offered(name: str, tools: list[ToolParam]) -> Offered:
    """Both. Raises as `to_tools`."""
    custom = frozenset(tool.custom.name for tool in tools if tool.type == "custom" and tool.custom is not None)
    return Offered(to_tools(name, tools), custom)


def to_tools(name: str, tools: list[ToolParam]) -> tuple[Tool, ...]:
    """The functions, their schemas checked. Raises BadRequest naming the JSON path."""
    seen: set[str] = set()
    return tuple(_tool(f"{name}[{at}]", tool, seen) for at, tool in enumerate(tools))


def from_functions(name: str, functions: list[Function]) -> tuple[Tool, ...]:
    """What clients offered before there were tools. Raises BadRequest naming the JSON path."""
    seen: set[str] = set()
    return tuple(_function(f"{name}[{at}]", function, seen) for at, function in enumerate(functions))


def _tool(place: str, tool: ToolParam, seen: set[str]) -> Tool:
    match tool:
        case ToolParam(type="function", function=Function() as function):
            return _function(f"{place}.function", function, seen)
        case ToolParam(type="custom", custom=Custom() as custom):
            name = checked_name(f"{place}.custom.name", custom.name, seen)
            return custom_tool(f"{place}.custom", name, custom.description, custom.format)
        case ToolParam(type="function" | "custom"):
            raise BadRequest(f"`{place}.{tool.type}` is required", param=f"{place}.{tool.type}")
        case _:
            raise Unsupported(
                f"`{place}.type` must be 'function' or 'custom', got {tool.type[:40]!r}", param=f"{place}.type"
            )


def _function(place: str, function: Function, seen: set[str]) -> Tool:
    parameters = checked_schema(f"{place}.parameters", function.parameters)
    return Tool(
        name=checked_name(f"{place}.name", function.name, seen),
        description=function.description or "",
        parameters=parameters,
        strict=bool(function.strict),
    )


def checked_name(place: str, name: str, seen: set[str]) -> str:
    """A tool's name, which is then among those `seen`. Raises BadRequest."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"`{place}` must be 1 to 128 letters, digits, or _ . : -", param=place)
    if name in seen:
        raise BadRequest(f"`{place}`: another tool is called {name!r} too", param=place)
    seen.add(name)
    return name


def named(name: str) -> ToolChoice:
    """The choice of one function."""
    return ToolChoice(type="function", function=Named(name))


def allowed(mode: Literal["auto", "required"], names: Iterable[str]) -> ToolChoice:
    """The choice among these functions."""
    references = [_Reference("function", function=Named(name)) for name in names]
    return ToolChoice(type="allowed_tools", allowed_tools=_Allowed(mode, references))


def checked_schema(place: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of a tool's arguments. Raises BadRequest naming the place."""
    if not schema:
        return {}
    check_depth(place, schema)
    if schema.get("type", "object") != "object":
        raise BadRequest(f"`{place}.type` must be 'object': arguments have names", param=f"{place}.type")
    check_schema(place, schema)
    return schema


def chosen(tools: tuple[Tool, ...], choice: str | ToolChoice | None) -> tuple[Tool, ...]:
    """The tools the model is shown, those marked one of which it must call. Raises BadRequest for a choice that
    names none of them.
    """
    match choice:
        case None | "auto":
            return tools
        case "none":
            return ()
        case "required":
            _need_tools(tools)
            return _forced(tools, [tool.name for tool in tools])
        case (
            ToolChoice(type="function", function=Named(name=name))
            | ToolChoice(type="custom", custom=Named(name=name))
        ):
            _known(tools, (name,))
            return _forced(tools, (name,))
        case ToolChoice(type="allowed_tools", allowed_tools=_Allowed() as allowed):
            names = tuple(reference.name for reference in allowed.tools)
            _known(tools, names)
            shown = tuple(tool for tool in tools if tool.name in names)
            return _forced(shown, names) if allowed.mode == "required" else shown
        case _:
            raise BadRequest(
                "`tool_choice` must be 'none', 'auto', 'required', a function or allowed_tools", param="tool_choice"
            )


def _forced(tools: tuple[Tool, ...], names: Sequence[str]) -> tuple[Tool, ...]:
    return tuple(msgspec.structs.replace(tool, forced=tool.name in names) for tool in tools)


def _need_tools(tools: tuple[Tool, ...]) -> None:
    if not tools:
        raise BadRequest("`tool_choice` asks for a call, but `tools` is empty", param="tool_choice")


def _known(tools: tuple[Tool, ...], names: tuple[str, ...]) -> None:
    _need_tools(tools)
    known = {tool.name for tool in tools}
    for name in names:
        if name not in known:
            raise BadRequest(f"`tool_choice` names {name[:64]!r}, which is not in `tools`", param="tool_choice")
