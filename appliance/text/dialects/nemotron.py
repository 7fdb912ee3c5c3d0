"""`<TOOLCALL>[…]</TOOLCALL>`, a list of objects, as Nemotron Nano 2 writes it; Nemotron 3 writes as Qwen3-Coder."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<TOOLCALL>", "</TOOLCALL>"


def read(reader: Reader) -> Steps[None]:
    yield from json_body.calls(reader, _CLOSE)


FORM = Form(json_call(), begin=f"{_OPEN}[", between=", ", end=f"]{_CLOSE}", opening=_OPEN)

FORMAT = ToolFormat(
    name="nemotron",
    aliases=("nemotron_toolcall", "nemotron2", "nemotron_json"),
    openers=anywhere(_OPEN),
    read=read,
    markers=(_CLOSE,),
    form=FORM,
)
