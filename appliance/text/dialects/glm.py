"""`<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`, as GLM-4.5 and later write it.

GLM-4.5 puts each tag on a line, GLM-4.7 none; both are read the same.
"""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.markup import Markup
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MARKUP = Markup(
    key="<arg_key>",
    key_ends=("</arg_key>",),
    value="<arg_value>",
    value_end="</arg_value>",
    call_ends=(_CLOSE,),
)


def read(reader: Reader) -> Steps[None]:
    end = yield from reader.name("\n", _MARKUP.key, _CLOSE)
    if end != "\n":
        reader.unread(end)
    yield from _MARKUP.parameters(reader)


GLM45 = ToolFormat(
    name="glm45", aliases=("glm", "glm4", "glm4_moe"), openers=anywhere(_OPEN), read=read, markers=(_CLOSE,)
)
GLM47 = ToolFormat(name="glm47", aliases=("laguna",), openers=anywhere(_OPEN), read=read, markers=(_CLOSE,))
