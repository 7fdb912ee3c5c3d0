"""`<|tool_call|>` and a list of objects, as Granite 3 writes it; Granite 4 writes as Hermes."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.reader import Reader, Steps


def read(reader: Reader) -> Steps[None]:
    yield from json_body.calls(reader)


FORMAT = ToolFormat(name="granite", aliases=("granite3",), openers=anywhere("<|tool_call|>"), read=read)
