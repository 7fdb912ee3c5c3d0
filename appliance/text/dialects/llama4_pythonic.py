"""`[name(key=value), …]`, bare or between `<|python_start|>` and `<|python_end|>`, as Llama 4 writes it."""

from appliance.text import python_call
from appliance.text.dialects.format import ToolFormat, anywhere, at_line
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE, _BARE = "<|python_start|>", "<|python_end|>", "["


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _BARE:
        reader.unread(_BARE)
    yield from reader.space()
    yield from python_call.calls(reader)
    yield from reader.option(_CLOSE)


FORMAT = ToolFormat(
    name="llama4_pythonic",
    aliases=("pythonic", "llama4"),
    openers=(*anywhere(_OPEN), *at_line(_BARE)),
    read=read,
    markers=(_CLOSE,),
)
