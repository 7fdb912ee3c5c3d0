"""One call a line, `name(key=value)`, between `<function_calls>` and `</function_calls>`, as Olmo 3 writes it."""

from appliance.text import python_call
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<function_calls>", "</function_calls>"


def read(reader: Reader) -> Steps[None]:
    while True:
        yield from reader.space()
        if (yield from reader.option(_CLOSE)) is not None or (reader.closed and not reader.window):
            return
        yield from python_call.call(reader)


FORMAT = ToolFormat(name="olmo3_pythonic", aliases=("olmo3",), openers=anywhere(_OPEN), read=read, markers=(_CLOSE,))
