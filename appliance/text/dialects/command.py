"""`<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>`, as Command R7B and A write it.

Command R and R+ write `Action:` and a fenced list.
"""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere, at_line
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE, _OLD, _FENCE = "<|START_ACTION|>", "<|END_ACTION|>", "Action:", "```"


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _OPEN:
        yield from json_body.calls(reader, _CLOSE)
        return
    yield from reader.space()
    yield from reader.literal(_FENCE + "json")
    yield from json_body.calls(reader, _FENCE)


FORMAT = ToolFormat(
    name="command",
    aliases=("command_r7b", "command_r", "command_a", "cohere"),
    openers=(*anywhere(_OPEN), *at_line(_OLD)),
    read=read,
    markers=(_CLOSE,),
)
