"""`<function name="…"><param name="…">…</param></function>`, as MiniCPM 5 writes it; values may be CDATA."""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup
from appliance.text.reader import Reader, Steps

_CALL = '<function name="'
_MARKUP = Markup(key='<param name="', key_ends=('">',), value_end="</param>", call_ends=("</function>",))


def read(reader: Reader) -> Steps[None]:
    yield from reader.name('">')
    yield from _MARKUP.parameters(reader)


_TAGS = Tags(head='{name}">', key='<param name="{key}">', end="</param>", tail="</function>")
FORM = Form(_TAGS.call, begin=_CALL, each=True, opening=_CALL)

FORMAT = ToolFormat(name="minicpm", aliases=("minicpm5",), openers=anywhere(_CALL), read=read, form=FORM)
