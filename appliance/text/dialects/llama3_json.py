"""`{"name": …, "parameters": {…}}`, bare or behind `<|python_tag|>`, as Llama 3 writes it.

Its built-in tools are called `<|python_tag|>name.call(key="value")`.
"""

from appliance.text import json_body, python_call
from appliance.text.dialects.format import ToolFormat, anywhere, at_line
from appliance.text.forms import Form, json_call
from appliance.text.openings import SPACE, objects
from appliance.text.reader import Reader, Steps

_TAG, _BARE = "<|python_tag|>", "{"


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _BARE:
        reader.unread(_BARE)
    yield from reader.space()
    if (yield from reader.char()) == "{":
        yield from json_body.calls(reader, between=(";",))
    else:
        yield from python_call.call(reader, member=".call")


# What it calls is written bare; behind the tag, which it writes for its built-in tools, the same is read.
FORM = Form(
    json_call(middle='", "parameters": '),
    between="; ",
    opening=_TAG,
    openings=objects(f"(;{SPACE})?"),
    exact=False,
)

FORMAT = ToolFormat(
    name="llama3_json",
    aliases=("llama3", "llama", "llama4_json"),
    openers=(*anywhere(_TAG), *at_line(_BARE)),
    read=read,
    form=FORM,
)
