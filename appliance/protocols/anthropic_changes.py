"""What a conversation says of its tools on the way: those it adds, by name or whole, and those it takes away."""

from collections.abc import Iterable
from typing import Any

import msgspec

from appliance.errors import BadRequest
from appliance.protocols.anthropic_tools import ToolParam, Tools, checked_tool
from appliance.protocols.fields import misfit
from appliance.vocab.request import Tool


class _Subject(msgspec.Struct):
    """The tool of a change: a name, or a definition."""

    type: str
    name: str | None = None
    definition: ToolParam | None = None


class Change(msgspec.Struct, frozen=True):
    """From here on a tool is `offered`, or is not. `tool` is its definition, where that is given here; `left_out` is
    the place of one that is left out.
    """

    place: str
    name: str
    offered: bool
    tool: Tool | None = None
    left_out: str | None = None

    def words(self) -> str:
        """What the model is told, in the place where it changes."""
        if self.left_out is not None:
            return ""
        return f"{self.name} can be called now" if self.offered else f"{self.name} cannot be called any more"


def change(place: str, subject: Any, *, offered: bool) -> Change | None:
    """The change in a block; None for tools of other servers. Raises BadRequest naming the JSON path, Unsupported."""
    try:
        said = msgspec.convert(subject, _Subject)
    except msgspec.ValidationError as error:
        raise misfit(place, error) from error
    match said:
        case _Subject(type="tool_reference", name=str(name)):
            return Change(place, name, offered)
        case _Subject(type="tool_reference"):
            raise BadRequest(f"`{place}.name` is required", param=f"{place}.name")
        case _Subject(type="tool_definition", definition=ToolParam() as definition) if offered:
            read = checked_tool(f"{place}.definition", definition, set())
            if isinstance(read, str):
                return Change(place, definition.name or "", offered, left_out=read)
            return Change(place, read.name, offered, read)
        case _Subject(type="mcp_tool_reference" | "mcp_toolset_reference"):
            return None
        case _:
            wanted = "'tool_reference' or 'tool_definition'" if offered else "'tool_reference'"
            raise BadRequest(f"`{place}.type` must be {wanted}, got {said.type[:40]!r}", param=f"{place}.type")


def at_the_end(tools: Tools, changes: Iterable[Change]) -> Tools:
    """The tools that are offered when the conversation has come to its end. Raises BadRequest for one that nothing
    defines; tools that were left out have no names here.
    """
    known = {tool.name: tool for tool in tools.shown}
    shown, left_out = dict(known), list(tools.left_out)
    for change in changes:
        if change.left_out is not None:
            left_out.append(change.left_out)
            continue
        if change.tool is not None:
            known[change.name] = change.tool
        if change.name not in known and not left_out:
            where = f"{change.place}.name"
            raise BadRequest(f"`{where}`: there is no tool {change.name[:64]!r}", param=where)
        if not change.offered:
            shown.pop(change.name, None)
        elif change.name in known:
            shown[change.name] = known[change.name]
    return Tools(tuple(shown.values()), tuple(left_out))
