"""`<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, as DeepSeek V3.1 writes it."""

from appliance.text import json_body
from appliance.text.dialects.deepseek_v3 import CALL_END, SECTION, SEPARATOR
from appliance.text.dialects.format import ToolFormat, Written, anywhere, json_text
from appliance.text.forms import Form, json_call
from appliance.text.reader import Reader, Steps


def _call(reader: Reader) -> Steps[None]:
    yield from reader.name(SEPARATOR)
    yield from json_body.object_text(reader)
    reader.end()
    yield from reader.space()
    yield from reader.option(CALL_END)


def read(reader: Reader) -> Steps[None]:
    yield from SECTION.read(reader, _call)


def write(calls: Written) -> str:
    """Each call with its object between tags."""
    each = (f"{SECTION.call}{name}{SEPARATOR}{json_text(arguments)}{CALL_END}" for name, arguments in calls)
    return f"{SECTION.begin}{''.join(each)}{SECTION.end}"


FORM = Form(json_call(SECTION.call, SEPARATOR, CALL_END), begin=SECTION.begin, end=SECTION.end, opening=SECTION.begin)

FORMAT = ToolFormat(
    name="deepseek_v31",
    aliases=("deepseek_v3_1",),
    openers=anywhere(SECTION.begin, SECTION.call),
    read=read,
    markers=(SECTION.end, SEPARATOR, CALL_END),
    write=write,
    form=FORM,
)
