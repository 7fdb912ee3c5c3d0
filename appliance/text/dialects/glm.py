"""`<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`, as GLM-4.5 and later write it.

GLM-4.5 puts each tag on a line, GLM-4.7 none; both are read the same.
"""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
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


def _format(name: str, aliases: tuple[str, ...], line: str) -> ToolFormat:
    tags = Tags(
        head=f"{{name}}{line}",
        key=f"<arg_key>{{key}}</arg_key>{line}<arg_value>",
        end=f"</arg_value>{line}",
        tail="",
    )
    form = Form(tags.call, begin=_OPEN, end=_CLOSE, between=line, each=True, opening=_OPEN)
    return ToolFormat(name=name, aliases=aliases, openers=anywhere(_OPEN), read=read, markers=(_CLOSE,), form=form)


GLM45 = _format("glm45", ("glm", "glm4", "glm4_moe"), "\n")
GLM47 = _format("glm47", ("laguna",), "")
