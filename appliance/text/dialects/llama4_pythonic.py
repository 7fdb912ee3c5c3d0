"""`[name(key=value), …]`, bare or between `<|python_start|>` and `<|python_end|>`, as Llama 4 writes it.

Its template shows the model objects as Llama 3 writes them, behind a pair of tags with nothing in it.
"""

from appliance.text import json_body, python_call
from appliance.text.dialects.format import ToolFormat, anywhere, at_line
from appliance.text.forms import Form, python_arguments
from appliance.text.forms import python_call as one_call
from appliance.text.openings import SPACE, Opening, objects
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE, _LIST, _OBJECT = "<|python_start|>", "<|python_end|>", "[", "{"


def read(reader: Reader) -> Steps[None]:
    if reader.opener != _OPEN:
        reader.unread(reader.opener)
    yield from reader.space()
    if (yield from reader.option(_CLOSE)) is not None:
        return
    if (yield from reader.char()) == _OBJECT:
        yield from json_body.calls(reader, _CLOSE, between=(";",))
    else:
        yield from python_call.calls(reader)
        yield from reader.option(_CLOSE)


_BARE = Opening("(", python_arguments, prefix=f"\\[{SPACE}", another=f",{SPACE}", end="\\]")
FORM = Form(
    one_call,
    begin=f"{_OPEN}[",
    between=", ",
    end=f"]{_CLOSE}",
    opening=_OPEN,
    openings=(_BARE, *objects(f"(;{SPACE})?")),
    exact=False,
)

FORMAT = ToolFormat(
    name="llama4_pythonic",
    aliases=("pythonic", "llama4"),
    openers=(*anywhere(_OPEN), *at_line(_LIST, _OBJECT)),
    read=read,
    markers=(_CLOSE,),
    form=FORM,
)
