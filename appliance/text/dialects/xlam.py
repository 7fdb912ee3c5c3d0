"""A bare list of objects, which may be fenced, as xLAM writes it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, as_objects, at_line
from appliance.text.forms import Form, json_call
from appliance.text.openings import SPACE, listed
from appliance.text.reader import Reader, Steps

_LIST, _FENCE = "[", "```"


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _LIST:
        yield from json_body.listed(reader)
        return
    yield from json_body.fenced(reader)
    yield from reader.space()
    yield from reader.literal(_LIST)
    yield from json_body.listed(reader)
    yield from reader.space()
    yield from reader.option(_FENCE)


FORM = Form(
    json_call(),
    begin=_LIST,
    between=", ",
    end="]",
    openings=(*listed(), *listed(f"{_FENCE}(json)?{SPACE}", f"{SPACE}{_FENCE}")),
    exact=False,
)

FORMAT = ToolFormat(name="xlam", openers=at_line(_LIST, _FENCE), read=read, write=as_objects, form=FORM)
