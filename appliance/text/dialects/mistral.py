"""`[TOOL_CALLS]` and what three generations of Mistral's models write behind it.

A list of objects; `name[CALL_ID]id[ARGS]{…}`; `name[ARGS]{…}`. All are read under each name, also a name with no
tag before its arguments.
"""

from appliance.text import json_body
from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Schema, json_call
from appliance.text.lark import Lark
from appliance.text.reader import Reader, Steps

_OPEN, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_LONGEST_ID = 64


def read(reader: Reader) -> Steps[None]:
    yield from reader.space()
    if (yield from reader.char()) == "[":
        yield from json_body.calls(reader)
        return
    end = yield from reader.name(_ARGUMENTS, _ID, "{")
    if end == _ID:
        _, end = yield from reader.until(_ARGUMENTS, "{", within=_LONGEST_ID)
    if end == "{":
        reader.unread(end)
    yield from json_body.object_text(reader)
    reader.end()


def _with_id(lark: Lark, name: str, schema: Schema) -> str:
    id = lark.terminal("[a-zA-Z0-9]{9}")
    return f"{lark.text(name + _ID)} {id} {lark.text(_ARGUMENTS)} {lark.json(schema)}"


def _format(name: str, form: Form, *aliases: str) -> ToolFormat:
    return ToolFormat(
        name=name, aliases=aliases, openers=anywhere(_OPEN), read=read, markers=(_ID, _ARGUMENTS), form=form
    )


LIST = _format(
    "mistral_json",
    Form(json_call(), begin=f"{_OPEN}[", between=", ", end="]", opening=_OPEN),
    "mistral_list",
    "mistral_v3",
)
CALL_ID = _format("mistral_call_id", Form(_with_id, begin=_OPEN, each=True, opening=_OPEN), "mistral_v11")
ARGS = _format(
    "mistral_args",
    Form(json_call("", _ARGUMENTS, ""), begin=_OPEN, each=True, opening=_OPEN),
    "mistral",
    "devstral",
    "magistral",
    "ministral",
    "mistral_v13",
)
