"""The frames of Kimi K3: `<|open|>call tool="…"<|sep|>…<|close|>call<|sep|>`; think and response are frames too."""

import re

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup
from appliance.text.reader import Landing, NotACall, Reader, Steps

_OPEN, _CLOSE, _SEPARATOR = "<|open|>", "<|close|>", "<|sep|>"
_MARKUP = Markup(
    key=f'{_OPEN}argument key="',
    key_ends=(
        f'" type="string"{_SEPARATOR}',
        *(f'" type="{kind}"{_SEPARATOR}' for kind in ("number", "integer", "boolean", "object", "array", "null")),
        f'"{_SEPARATOR}',
    ),
    value_end=f"{_CLOSE}argument{_SEPARATOR}",
    call_ends=(f"{_CLOSE}call{_SEPARATOR}",),
)
_HEADER = re.compile(r'(think|response|tools|message|call tool="([^"<>]*)")(?:\s[^<>]*)?')
_LONGEST_HEADER = 256


def read(reader: Reader) -> Steps[Landing | None]:
    header, _ = yield from reader.until(_SEPARATOR, within=_LONGEST_HEADER)
    known = _HEADER.fullmatch(header)
    if known is None:
        raise NotACall("malformed call")
    if known[2] is not None:
        reader.begin(known[2])
        yield from _MARKUP.parameters(reader)
    return Landing.REASONING if header == "think" and reader.opener == _OPEN else None


_TOOLS = f"{_OPEN}tools{_SEPARATOR}"
_TAGS = Tags(
    head=f'{_OPEN}call tool="{{name}}"{_SEPARATOR}',
    key=f'{_OPEN}argument key="{{key}}" type="{{kind}}"{_SEPARATOR}',
    end=f"{_CLOSE}argument{_SEPARATOR}",
    tail=f"{_CLOSE}call{_SEPARATOR}",
    text="string",
    other="{type}",
)
FORM = Form(_TAGS.call, begin=_TOOLS, end=f"{_CLOSE}tools{_SEPARATOR}", opening=_TOOLS)

FORMAT = ToolFormat(
    name="kimi_k3", openers=anywhere(_OPEN, _CLOSE), read=read, markers=(_SEPARATOR,), frames=True, form=FORM
)
