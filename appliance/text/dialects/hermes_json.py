"""`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, as Hermes, Qwen2.5 and Qwen3 write it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, json_text
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def read(reader: Reader) -> Steps[None]:
    # Some forget to close one block before they open the next.
    yield from json_body.calls(reader, _CLOSE, between=(_OPEN,))


def write(calls: Written) -> str:
    """Each call in tags, on lines of its own."""
    return "\n".join(
        f"{_OPEN}\n{json_text({'name': name, 'arguments': arguments})}\n{_CLOSE}" for name, arguments in calls
    )


FORM = Form(json_call('\n{"name": "', tail="}\n"), begin=_OPEN, end=_CLOSE, between="\n", each=True, opening=_OPEN)

FORMAT = ToolFormat(
    name="hermes_json",
    aliases=("hermes", "qwen", "qwen2_5", "qwen3", "ernie45", "ernie", "exaone", "granite4", "smollm3"),
    openers=anywhere(_OPEN),
    read=read,
    markers=(_CLOSE,),
    write=write,
    form=FORM,
)
