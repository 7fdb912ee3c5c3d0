"""Step 3.5 writes as Qwen3-Coder; Step 3 `<steptml:invoke name="…">` in a section of special tokens."""

from appliance.text.dialects import qwen3_coder
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.markup import Markup, Section
from appliance.text.reader import Reader, Steps

_SECTION = Section(begin="<｜tool_calls_begin｜>", call="<｜tool_call_begin｜>", end="<｜tool_calls_end｜>")
_KIND, _INVOKE, _END = "<｜tool_sep｜>", '<steptml:invoke name="', "<｜tool_call_end｜>"
_MARKUP = Markup(
    key='<steptml:parameter name="',
    key_ends=('">',),
    value_end="</steptml:parameter>",
    call_ends=("</steptml:invoke>",),
)


def _call(reader: Reader) -> Steps[None]:
    yield from reader.until(_KIND, within=64)
    yield from reader.literal(_INVOKE)
    yield from reader.name('">')
    yield from _MARKUP.parameters(reader)
    yield from reader.option(_END)


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _SECTION.begin:
        yield from _SECTION.read(reader, _call)
    else:
        yield from qwen3_coder.read(reader)


FORMAT = ToolFormat(
    name="step",
    aliases=("step3", "step3p5", "step_3_5"),
    openers=(*anywhere(_SECTION.begin), *qwen3_coder.FORMAT.openers),
    read=read,
    markers=(_SECTION.call, _SECTION.end, _KIND, _END, *qwen3_coder.FORMAT.markers),
    form=qwen3_coder.FORM,
)
