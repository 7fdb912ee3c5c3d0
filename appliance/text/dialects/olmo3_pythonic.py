"""One call a line, `name(key=value)`, between `<function_calls>` and `</function_calls>`, as Olmo 3 writes it."""

from appliance.text import python_call
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form
from appliance.text.forms import python_call as one_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<function_calls>", "</function_calls>"


def read(reader: Reader) -> Steps[None]:
    while True:
        yield from reader.space()
        if (yield from reader.option(_CLOSE)) is not None or (reader.closed and not reader.window):
            return
        yield from python_call.call(reader)


FORM = Form(one_call, begin=f"{_OPEN}\n", between="\n", end=f"\n{_CLOSE}", opening=_OPEN)

FORMAT = ToolFormat(
    name="olmo3_pythonic", aliases=("olmo3",), openers=anywhere(_OPEN), read=read, markers=(_CLOSE,), form=FORM
)
