"""`<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>`, as Command R7B and A write it.

Command R and R+ write `Action:` and a fenced list.
"""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, Write, Written, anywhere, at_line, json_text
from appliance.text.forms import Form, Schema, json_call
from appliance.text.lark import Lark
from appliance.text.openings import SPACE, fenced
from appliance.text.reader import Reader, Steps

_OPEN, _CLOSE, _OLD, _FENCE = "<|START_ACTION|>", "<|END_ACTION|>", "Action:", "```"
_ACTION = f"{_OLD}{SPACE}{_FENCE}json"


def read(reader: Reader) -> Steps[None]:
    if reader.opener == _OPEN:
        yield from json_body.calls(reader, _CLOSE)
        return
    yield from reader.space()
    yield from reader.literal(_FENCE + "json")
    yield from json_body.calls(reader, _FENCE)


def _one(lark: Lark, name: str, schema: Schema) -> str:
    id = lark.terminal("[0-9]")
    head, middle = lark.text('\n    {"tool_call_id": "'), lark.text(f'", "tool_name": "{name}", "parameters": ')
    return f"{head} {id} {middle} {lark.json(schema)} {lark.text('}')}"


_OF_R = json_call('\n    {"tool_name": "', '", "parameters": ')


def write(calls: Written) -> str:
    """A fenced list, as Command R writes it."""
    objects = json_text([{"tool_name": name, "parameters": arguments} for name, arguments in calls])
    return f"{_OLD} {_FENCE}json\n{objects}\n{_FENCE}"


def _format(name: str, form: Form, *aliases: str, write: Write | None = None) -> ToolFormat:
    openers = (*anywhere(_OPEN), *at_line(_OLD))
    return ToolFormat(
        name=name, aliases=aliases, openers=openers, read=read, markers=(_CLOSE,), write=write, form=form
    )


FORMAT = _format(
    "command",
    Form(_one, begin=f"{_OPEN}[", between=",", end=f"\n]{_CLOSE}", opening=_OPEN, barred=(_ACTION,)),
    "command_r7b",
    "command_a",
    "cohere",
)
R = _format(
    "command_r",
    Form(
        _OF_R,
        begin=f"{_OLD}\n{_FENCE}json\n[",
        between=",",
        end=f"\n]\n{_FENCE}",
        openings=fenced(f"{_ACTION}"),
        exact=False,
    ),
    "command_r_plus",
    write=write,
)
