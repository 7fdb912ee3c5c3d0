"""`<|tool_call|>` and a list of objects, as Granite 3 writes it; Granite 4 writes as Hermes."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, as_objects
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps

_OPEN = "<|tool_call|>"


def read(reader: Reader) -> Steps[None]:
    yield from json_body.calls(reader)


def write(calls: Written) -> str:
    """A list behind the tag."""
    return f"{_OPEN}{as_objects(calls)}"


FORM = Form(json_call(), begin=f"{_OPEN}[", between=", ", end="]", opening=_OPEN)

FORMAT = ToolFormat(name="granite", aliases=("granite3",), openers=anywhere(_OPEN), read=read, write=write, form=FORM)
