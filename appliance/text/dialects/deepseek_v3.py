"""`<｜tool▁call▁begin｜>function<｜tool▁sep｜>name` and a fenced object, as DeepSeek V3 and R1 write it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Written, anywhere, json_text
from appliance.text.forms import Form, json_call
from appliance.text.markup import Section
from appliance.text.reader import Reader, Steps

SECTION = Section(begin="<｜tool▁calls▁begin｜>", call="<｜tool▁call▁begin｜>", end="<｜tool▁calls▁end｜>")
SEPARATOR, CALL_END = "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_FENCE = "```"
_LONGEST_TYPE = 64


def _call(reader: Reader) -> Steps[None]:
    yield from reader.until(SEPARATOR, within=_LONGEST_TYPE)
    yield from reader.name("\n")
    yield from reader.space()
    yield from reader.option(_FENCE + "json")
    yield from json_body.object_text(reader)
    reader.end()
    yield from reader.space()
    yield from reader.option(_FENCE)
    yield from reader.space()
    yield from reader.option(CALL_END)


def read(reader: Reader) -> Steps[None]:
    yield from SECTION.read(reader, _call)


def write(calls: Written) -> str:
    """Each call with its object in a fence."""
    each = (
        f"{SECTION.call}function{SEPARATOR}{name}\n{_FENCE}json\n{json_text(arguments)}\n{_FENCE}{CALL_END}"
        for name, arguments in calls
    )
    return f"{SECTION.begin}{''.join(each)}{SECTION.end}"


FORM = Form(
    json_call(f"{SECTION.call}function{SEPARATOR}", f"\n{_FENCE}json\n", f"\n{_FENCE}{CALL_END}"),
    begin=SECTION.begin,
    between="\n",
    end=SECTION.end,
    opening=SECTION.begin,
)

FORMAT = ToolFormat(
    name="deepseek_v3",
    aliases=("deepseek", "deepseek_r1"),
    openers=anywhere(SECTION.begin, SECTION.call),
    read=read,
    markers=(SECTION.end, SEPARATOR, CALL_END),
    write=write,
    form=FORM,
)
