"""Bare or fenced objects `{"name": …, "arguments": {…}}`, for models without a format of their own.

The recipe asks for them in the system prompt.
"""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, at_line, json_text
from appliance.text.forms import Form, json_call
from appliance.text.openings import fenced, listed, objects
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE, _OBJECT, _LIST, _FENCE = "<tool_call>", "</tool_call>", "{", "[", "```"


def write(calls: Written) -> str:
    """Calls as the recipe asks for them: an object a line."""
    return "\n".join(json_text({"name": name, "arguments": arguments}) for name, arguments in calls)


def read(reader: Reader) -> Steps[None]:
    match reader.opener:
        case "<tool_call>":
            yield from json_body.calls(reader, _CLOSE)
        case "```":
            yield from json_body.fenced(reader)
            yield from json_body.calls(reader, _FENCE)
        case opener:
            reader.unread(opener)
            yield from json_body.calls(reader)


FORM = Form(
    json_call(),
    between="\n",
    opening=_OPEN,
    close=_CLOSE,
    openings=(*objects(), *listed(), *fenced(f"{_FENCE}(json)?")),
    exact=False,
)

FORMAT = ToolFormat(
    name="json",
    aliases=("generic",),
    openers=(*anywhere(_OPEN), *at_line(_OBJECT, _LIST, _FENCE)),
    read=read,
    markers=(_CLOSE,),
    write=write,
    form=FORM,
)
