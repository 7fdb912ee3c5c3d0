"""The commands that are understood, and which of them a command line starts."""

from collections.abc import Mapping, Sequence

from appliance.convert.command import Tool
from appliance.convert.tools import llama_server, max_serve, mlx_lm, rapid_mlx, vllm_mlx

TOOLS: Mapping[str, Tool] = {
    tool.name: tool for tool in (rapid_mlx.TOOL, vllm_mlx.TOOL, max_serve.TOOL, mlx_lm.TOOL, llama_server.TOOL)
}


def split(words: Sequence[str]) -> tuple[Tool, Sequence[str]] | None:
    """The tool a command line starts and its arguments; None where there is none that we know.

    What stands before it (`uvx`, `python -m`, variables) does not matter.
    """
    plain = [word.rpartition("/")[2] for word in words]
    found = [
        (at, -len(start), tool, words[at + len(start) :])
        for tool in TOOLS.values()
        for start in tool.starts
        for at in range(len(plain))
        if tuple(plain[at : at + len(start)]) == start
    ]
    if not found:
        return None
    _, _, tool, arguments = min(found, key=lambda row: row[:2])
    return tool, arguments
