"""`<|tool_call>call:name{key:<|"|>text<|"|>,n:5}<tool_call|>`, as Gemma 4 writes it: strings are not escaped."""

import re
from typing import Any

from appliance.text import json_body
from appliance.text.balanced import Quoting, balanced
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, marked
from appliance.text.literal import Syntax
from appliance.text.reader import NotACall, Reader, Steps

_OPEN, _CLOSE, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_QUOTING = Quoting(quotes=(_QUOTE,), outside=re.compile(r"[^{}\[\]()<]+"), escapes=False)
_TOKENS = re.compile(
    r"""\s*(?:<\|"\|>(?P<string>.*?)<\|"\|>|(?P<mark>[{}\[\],:])|(?P<word>[^{}\[\],:<\s][^{}\[\],:<]*)|(?P<other>\S))\s*""",
    re.DOTALL,
)


def _word(text: str) -> Any:
    """A number, a truth value or null; any other word is a string without its quotes."""
    try:
        return json_body.loads(text)
    except ValueError:
        return text.rstrip()


_VALUES = Syntax(_TOKENS, lambda text: text, _word)


def read(reader: Reader) -> Steps[None]:
    yield from reader.literal("call:")
    yield from reader.name("{")
    reader.unread("{")
    parts: list[str] = []
    yield from balanced(reader, _QUOTING, lambda text, quoted: parts.append(text))
    try:
        reader.argue(json_body.dump(_VALUES.members("".join(parts), ":")))
    except ValueError:
        raise NotACall("malformed call") from None
    reader.end()
    yield from reader.option(_CLOSE)


FORM = Form(marked(_QUOTE), begin=_OPEN, end=_CLOSE, each=True, opening=_OPEN)

FORMAT = ToolFormat(
    name="gemma4", aliases=("gemma",), openers=anywhere(_OPEN), read=read, markers=(_CLOSE, _QUOTE), form=FORM
)
