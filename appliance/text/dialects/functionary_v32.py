"""`>>>name` on a line and an object, or `>>>all` and text, as Functionary 3.2 writes it."""

import re

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, json_text
from appliance.text.forms import Form, json_call
from appliance.text.openings import Opening
from appliance.text.reader import Landing, NotACall, Reader, Steps

_OPEN, _TEXT = ">>>", "all"
_NAME = re.compile(r"[\w.:\-]+")
_LONGEST_NAME = 128


def read(reader: Reader) -> Steps[Landing | None]:
    name, _ = yield from reader.until("\n", within=_LONGEST_NAME)
    if not _NAME.fullmatch(name):
        raise NotACall("malformed call")
    if name == _TEXT:
        return None
    reader.begin(name)
    reader.drop()
    yield from json_body.object_text(reader)
    reader.end()
    return None


def write(calls: Written) -> str:
    """Each call behind its name."""
    return "".join(f"{_OPEN}{name}\n{json_text(arguments)}" for name, arguments in calls)


_LATER = Opening("\n", lambda lark, schema: lark.json(schema), tag=_OPEN)
FORM = Form(json_call("", "\n", ""), begin=_OPEN, each=True, openings=(_LATER,))

FORMAT = ToolFormat(
    name="functionary_v32",
    aliases=("functionary", "functionary_v3_2"),
    openers=anywhere(_OPEN),
    read=read,
    start=_OPEN,
    write=write,
    form=FORM,
)
