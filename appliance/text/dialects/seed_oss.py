"""`<seed:tool_call><function=name><parameter=key>value</parameter>`, as Seed-OSS writes it."""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup, Section
from appliance.text.reader import Reader, Steps

_SECTION = Section(begin="<seed:tool_call>", call="<function=", end="</seed:tool_call>")
_MARKUP = Markup(key="<parameter=", key_ends=(">",), value_end="</parameter>", call_ends=("</function>",))


def _call(reader: Reader) -> Steps[None]:
    yield from reader.name(">")
    yield from _MARKUP.parameters(reader)


def read(reader: Reader) -> Steps[None]:
    yield from _SECTION.read(reader, _call)


_TAGS = Tags(head="<function={name}>\n", key="<parameter={key}>", end="</parameter>\n", tail="</function>\n")
FORM = Form(_TAGS.call, begin=f"{_SECTION.begin}\n", end=_SECTION.end, opening=_SECTION.begin)

FORMAT = ToolFormat(
    name="seed_oss",
    aliases=("seed",),
    openers=anywhere(_SECTION.begin),
    read=read,
    markers=(_SECTION.end,),
    form=FORM,
)
