"""`<|tool_call_begin|>functions.name:index<|tool_call_argument_begin|>{…}<|tool_call_end|>`, as Kimi K2 writes it."""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Schema
from appliance.text.lark import Lark
from appliance.text.markup import Section
from appliance.text.reader import Reader, Steps

_SECTION = Section(begin="<|tool_calls_section_begin|>", call="<|tool_call_begin|>", end="<|tool_calls_section_end|>")
_ARGUMENTS, _CALL_END = "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_LONGEST_ID = 256


def _call(reader: Reader) -> Steps[None]:
    id, _ = yield from reader.until(_ARGUMENTS, within=_LONGEST_ID)
    name, _, index = id.strip().removeprefix("functions.").rpartition(":")
    reader.begin(name or index)
    yield from json_body.object_text(reader)
    reader.end()
    yield from reader.space()
    yield from reader.option(_CALL_END)


def read(reader: Reader) -> Steps[None]:
    yield from _SECTION.read(reader, _call)


def _one(lark: Lark, name: str, schema: Schema) -> str:
    index = lark.terminal("[0-9]{1,2}")
    head = lark.text(f"{_SECTION.call}functions.{name}:")
    return f"{head} {index} {lark.text(_ARGUMENTS)} {lark.json(schema)} {lark.text(_CALL_END)}"


FORM = Form(_one, begin=_SECTION.begin, end=_SECTION.end, opening=_SECTION.begin)

FORMAT = ToolFormat(
    name="kimi_k2",
    aliases=("kimi",),
    openers=anywhere(_SECTION.begin, _SECTION.call),
    read=read,
    markers=(_SECTION.end, _ARGUMENTS, _CALL_END),
    form=FORM,
)
