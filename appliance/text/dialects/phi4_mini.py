"""`functools[{"name": …, "arguments": {…}}]`, as Phi-4-mini writes it; also `<|tool_call|>[…]<|/tool_call|>`."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, as_objects
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_BARE, _OPEN, _CLOSE = "functools[", "<|tool_call|>", "<|/tool_call|>"


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _BARE:
        yield from json_body.listed(reader)
    else:
        yield from json_body.calls(reader, _CLOSE)


def write(calls: Written) -> str:
    """A list behind the word."""
    return f"functools{as_objects(calls)}"


FORM = Form(json_call(), begin=_BARE, between=", ", end="]", opening=_BARE)

FORMAT = ToolFormat(
    name="phi4_mini",
    aliases=("phi4", "phi4_mini_json", "phi"),
    openers=anywhere(_BARE, _OPEN),
    read=read,
    markers=(_CLOSE,),
    write=write,
    form=FORM,
)
