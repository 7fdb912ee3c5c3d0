"""`<tool_calls>[…]</tool_calls>`, a list of objects, as Hunyuan A13B, Jamba and Apriel write it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<tool_calls>", "</tool_calls>"


def read(reader: Reader) -> Steps[None]:
    yield from json_body.calls(reader, _CLOSE)


FORM = Form(json_call(), begin=f"{_OPEN}[", between=", ", end=f"]{_CLOSE}", opening=_OPEN)

FORMAT = ToolFormat(
    name="hunyuan",
    aliases=("hunyuan_a13b", "jamba", "apriel"),
    openers=anywhere(_OPEN),
    read=read,
    markers=(_CLOSE,),
    form=FORM,
)
