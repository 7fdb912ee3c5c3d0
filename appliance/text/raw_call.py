"""A call whose one argument is the text up to the end of the answer: what a call is held to that has a grammar.

No model was trained on it, so it is only for calls that are forced. In JSON a grammar could not be followed: a
quotation mark and the end of a line begin with the same character there, and where a text has an end of its own, that
might be part of the text.
"""

from appliance.text.dialects.format import ToolFormat, anywhere, json_text
from appliance.text.reader import Reader, Steps

_OPEN, _NAMED = "<tool_input=", ">\n"


def head(name: str) -> str:
    """What stands before the text."""
    return f"{_OPEN}{name}{_NAMED}"


def read(reader: Reader) -> Steps[None]:
    """The text becomes the argument `input`, given out as it comes."""
    yield from reader.name(_NAMED)
    reader.argue('{"input": "')
    while True:
        reader.argue(json_text(reader.consume(len(reader.window)))[1:-1])
        if reader.closed:
            break
        yield
    reader.argue('"}')
    reader.end()


FORMAT = ToolFormat(name="raw_call", openers=anywhere(_OPEN), read=read)
