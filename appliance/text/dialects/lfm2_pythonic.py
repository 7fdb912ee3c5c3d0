"""`<|tool_call_start|>[name(key=value), …]<|tool_call_end|>`, as LFM2 writes it; text may follow."""

from appliance.text import python_call
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"


def read(reader: Reader) -> Steps[None]:
    yield from reader.space()
    yield from python_call.calls(reader)
    yield from reader.space()
    yield from reader.option(_CLOSE)


FORMAT = ToolFormat(name="lfm2_pythonic", aliases=("lfm2",), openers=anywhere(_OPEN), read=read, markers=(_CLOSE,))
