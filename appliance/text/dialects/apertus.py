"""`<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`, as Apertus writes it: the name is the key of the arguments."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<|tools_prefix|>", "<|tools_suffix|>"


def read(reader: Reader) -> Steps[None]:
    yield from reader.space()
    mark = yield from reader.literal("[")
    while mark != "]":
        yield from reader.space()
        yield from reader.literal("{")
        reader.begin((yield from json_body.key(reader)))
        yield from json_body.object_text(reader)
        yield from reader.space()
        yield from reader.literal("}")
        reader.end()
        yield from reader.space()
        mark = yield from reader.literal(",", "]")
    reader.drop()
    yield from reader.space()
    yield from reader.option(_CLOSE)


FORM = Form(json_call('{"', '": '), begin=f"{_OPEN}[", between=", ", end=f"]{_CLOSE}", opening=_OPEN)

FORMAT = ToolFormat(name="apertus", openers=anywhere(_OPEN), read=read, markers=(_CLOSE,), form=FORM)
