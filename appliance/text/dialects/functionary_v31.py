"""`<function=name>{…}</function>`, as Functionary 3.1 and Llama 3.1 with custom tools write it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<function=", "</function>"


def read(reader: Reader) -> Steps[None]:
    yield from reader.name(">")
    yield from json_body.object_text(reader)
    reader.end()
    yield from reader.space()
    yield from reader.option(_CLOSE)


FORM = Form(json_call("", ">", ""), begin=_OPEN, end=_CLOSE, each=True, opening=_OPEN)

FORMAT = ToolFormat(
    name="functionary_v31",
    aliases=("functionary_v3_1",),
    openers=anywhere(_OPEN),
    read=read,
    markers=(_CLOSE,),
    form=FORM,
)
