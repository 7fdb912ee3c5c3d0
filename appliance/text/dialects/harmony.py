"""The frames of gpt-oss: `<|channel|>analysis<|message|>…<|end|>` is reasoning, `final` the answer.

A frame `to=functions.name` is a call. A header may begin in the prompt, which ends with `<|start|>assistant`.
"""

import re

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, json_call
from appliance.text.reader import Landing, Reader, Steps

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_ENDS = ("<|end|>", "<|return|>", "<|call|>")
_LONGEST_HEADER = 256
_RECIPIENT = re.compile(r"\bto=(\S+?)(?=\s|<|$)")
_FUNCTION = "functions."


def read(reader: Reader) -> Steps[Landing | None]:
    if reader.opener in _ENDS:
        return None
    if reader.opener not in (_START, _CHANNEL):
        yield from _continued(reader)
    header, _ = yield from reader.until(_MESSAGE, within=_LONGEST_HEADER)
    header = (_CHANNEL if reader.opener == _CHANNEL else "") + header
    recipient = _RECIPIENT.search(header)
    reader.drop()
    if recipient is not None and recipient[1].startswith(_FUNCTION):
        yield from _call(reader, recipient[1].removeprefix(_FUNCTION))
        return None
    return Landing.REASONING if _CHANNEL + "analysis" in header else None


def _call(reader: Reader, name: str) -> Steps[None]:
    reader.begin(name)
    yield from reader.space()
    if (yield from reader.option(*_ENDS)) is None:
        yield from json_body.object_text(reader)
    else:
        reader.argue("{}")
    reader.end()


def _continued(reader: Reader) -> Steps[None]:
    """The rest of a header whose beginning is the prompt's end."""
    reader.unread((yield from reader.literal(" to=", _CHANNEL, _MESSAGE)))


_COMMENTARY = f"{_CHANNEL}commentary to="
FORM = Form(
    json_call("", f" {_CONSTRAIN}json{_MESSAGE}", ""),
    begin=f"{_COMMENTARY}{_FUNCTION}",
    opening=_COMMENTARY,
    single=True,
)

FORMAT = ToolFormat(
    name="harmony",
    aliases=("gpt_oss", "openai"),
    openers=anywhere(_START, _CHANNEL, *_ENDS),
    read=read,
    markers=(_MESSAGE, _CONSTRAIN),
    start=_START + "assistant",
    frames=True,
    form=FORM,
)
