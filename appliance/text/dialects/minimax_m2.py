"""`<minimax:tool_call><invoke name="…"><parameter name="…">`, as MiniMax M2 writes it."""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup, Section
from appliance.text.reader import Reader, Steps

_SECTION = Section(begin="<minimax:tool_call>", call='<invoke name="', end="</minimax:tool_call>")
_MARKUP = Markup(key='<parameter name="', key_ends=('">',), value_end="</parameter>", call_ends=("</invoke>",))


def _call(reader: Reader) -> Steps[None]:
    yield from reader.name('">')
    yield from _MARKUP.parameters(reader)


def read(reader: Reader) -> Steps[None]:
    yield from _SECTION.read(reader, _call)


_TAGS = Tags(
    head='<invoke name="{name}">\n', key='<parameter name="{key}">', end="</parameter>\n", tail="</invoke>\n"
)
FORM = Form(_TAGS.call, begin=f"{_SECTION.begin}\n", end=_SECTION.end, opening=_SECTION.begin)

FORMAT = ToolFormat(
    name="minimax_m2",
    aliases=("minimax",),
    openers=anywhere(_SECTION.begin),
    read=read,
    markers=(_SECTION.end,),
    form=FORM,
)
