"""`<|tool_call_start|>[name(key=value), …]<|tool_call_end|>`, as LFM2 writes it; text may follow."""

from appliance.text import python_call
from appliance.text.dialects.format import ToolFormat, Written, anywhere
from appliance.text.forms import Form
from appliance.text.forms import python_call as one_call
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"


def read(reader: Reader) -> Steps[None]:
    yield from reader.space()
    yield from python_call.calls(reader)
    yield from reader.space()
    yield from reader.option(_CLOSE)


def write(calls: Written) -> str:
    """A list of Python calls in tags."""
    return f"{_OPEN}[{', '.join(python_call.written(name, arguments) for name, arguments in calls)}]{_CLOSE}"


FORM = Form(one_call, begin=f"{_OPEN}[", between=", ", end=f"]{_CLOSE}", opening=_OPEN)

FORMAT = ToolFormat(
    name="lfm2_pythonic",
    aliases=("lfm2",),
    openers=anywhere(_OPEN),
    read=read,
    markers=(_CLOSE,),
    write=write,
    form=FORM,
)
