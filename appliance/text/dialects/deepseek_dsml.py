"""`<｜DSML｜invoke name="…">` in a section that V3.2 calls `function_calls` and V4 calls `tool_calls`.

Each parameter says whether it is a string: `string="true"`.
"""

from appliance.text.dialects.format import ToolFormat, anywhere
from appliance.text.forms import Form, Tags
from appliance.text.markup import Markup, Section
from appliance.text.reader import Reader, Steps

_CALL = '<｜DSML｜invoke name="'
_MARKUP = Markup(
    key='<｜DSML｜parameter name="',
    key_ends=('" string="true">', '" string="false">', '">'),
    value_end="</｜DSML｜parameter>",
    call_ends=("</｜DSML｜invoke>",),
)

_TAGS = Tags(
    head=f'{_CALL}{{name}}">\n',
    key='<｜DSML｜parameter name="{key}" string="{kind}">',
    end="</｜DSML｜parameter>\n",
    tail="</｜DSML｜invoke>\n",
    text="true",
    other="false",
)


def _call(reader: Reader) -> Steps[None]:
    yield from reader.name('">')
    yield from _MARKUP.parameters(reader)


def _format(name: str, aliases: tuple[str, ...], word: str) -> ToolFormat:
    section = Section(begin=f"<｜DSML｜{word}>", call=_CALL, end=f"</｜DSML｜{word}>")

    def read(reader: Reader) -> Steps[None]:
        yield from section.read(reader, _call)

    return ToolFormat(
        name=name,
        aliases=aliases,
        openers=anywhere(section.begin),
        read=read,
        markers=(section.end, _CALL),
        form=Form(_TAGS.call, begin=f"{section.begin}\n", end=section.end, opening=section.begin),
    )


FUNCTION_CALLS = _format("deepseek_dsml", ("deepseek_v32", "deepseek_v3_2"), "function_calls")
TOOL_CALLS = _format("deepseek_dsml_v4", ("deepseek_v4",), "tool_calls")
