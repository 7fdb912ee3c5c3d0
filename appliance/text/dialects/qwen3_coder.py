"""`<tool_call><function=name><parameter=key>`, values on lines of their own, as Qwen3-Coder and Qwen3.5 write it."""

from dataclasses import replace

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup, Section
from appliance.text.openings import Opening
from appliance.text.reader import Reader, Steps

SECTION = Section(begin="<tool_call>", call="<function=", end="</tool_call>")
_MARKUP = Markup(
    key="<parameter=", key_ends=(">",), value_end="</parameter>", call_ends=("</function>",), padded=True
)


def call(reader: Reader) -> Steps[None]:
    """What stands behind `<function=`. Raises NotACall, Cut."""
    yield from reader.name(">")
    yield from _MARKUP.parameters(reader)


def read(reader: Reader) -> Steps[None]:
    yield from SECTION.read(reader, call)


_TAGS = Tags(head="\n<function={name}>\n", key="<parameter={key}>\n", end="\n</parameter>\n", tail="</function>\n")
_BARE = replace(_TAGS, head="\n")
FORM = Form(
    _TAGS.call,
    begin=SECTION.begin,
    end=SECTION.end,
    between="\n",
    each=True,
    opening=SECTION.begin,
    openings=(Opening(">", lambda lark, schema: _BARE.call(lark, "", schema), tag=SECTION.call),),
)

FORMAT = ToolFormat(
    name="qwen3_coder",
    aliases=("qwen3_xml", "qwen3_coder_xml", "qwen3_5", "nemotron3", "nemotron_v3"),
    # Models that were trained on it leave the outer tag out now and then.
    openers=anywhere(SECTION.begin, SECTION.call),
    read=read,
    markers=(SECTION.end,),
    form=FORM,
)
