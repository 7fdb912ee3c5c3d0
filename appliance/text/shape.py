"""How a chat template wants a conversation put: found out by rendering small ones and looking for their words."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from appliance.errors import TemplateFailed
from appliance.text.heads import Heads, heads

Render = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], str]
"""Text for messages and variables. Raises TemplateFailed."""

Arguments = Literal["mapping", "text"]
Ids = Literal["ours", "nine", "functions"]
Tools = Literal["tools", "xml_tools", "functions", "system", "none"]

_NAME, _KEY, _VALUE = "probe_tool", "probe_key", "probevalue"
_RESULT, _SYSTEM, _LATE, _ASKED, _SAID = "proberesult", "probesystem", "probelate", "probeasked", "probesaid"
_PARAMETERS = {"type": "object", "properties": {_KEY: {"type": "string"}}, "required": [_KEY]}
_TOOL = {"type": "function", "function": {"name": _NAME, "description": "probe", "parameters": _PARAMETERS}}
_ASK = {"role": "user", "content": _ASKED}
_MISSHAPEN = (f"{{'{_KEY}'", f'\\"{_KEY}')
"""A mapping that was printed as Python, a text that was printed as a JSON string."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`tools` is where it looks for tools (`none`: it shows none), `no_tools` what it needs where there are none.

    `arguments`, `empty` and `ids` are the form of a call: of its arguments, of the text beside it and of its id.
    With `described` every parameter must have a description.
    What is false of the rest it shows wrongly or not at all: `calls` and `results` of the past, `parallel` calls of
    one turn, the `system` text, one that comes `late`, `turns` of one role in a row, `beside`: text and reasoning
    beside calls. `heads` is what it begins each role's turns with.
    """

    tools: Tools = "tools"
    no_tools: Any = None
    arguments: Arguments = "mapping"
    empty: str | None = ""
    ids: Ids = "ours"
    described: bool = False
    calls: bool = True
    results: bool = True
    parallel: bool = True
    system: bool = True
    late: bool = True
    turns: bool = True
    beside: bool = True
    heads: Heads = ()


def shape(render: Render, specials: Iterable[str] = ()) -> Shape:
    """The shape of the template behind `render`; `specials` are texts of special tokens that it may show."""
    nothing: tuple[Any, ...] = (None, [])
    no_tools = next((none for none in nothing if _shows(render, [_ASK], none, _ASKED)), None)
    tools, described = _tools(render)
    offered = tools_variables(tools, [with_descriptions(_TOOL) if described else _TOOL], no_tools)
    form = next(_forms(render, offered), None)
    arguments, empty, ids = form or ("mapping", "", "ours")
    system = {"role": "system", "content": _SYSTEM}
    late = {"role": "system", "content": _LATE}
    said = {"role": "assistant", "content": _SAID}
    call = _turn(arguments, empty, ids)
    both = {**call, "content": _SAID, "reasoning_content": "probethought", "thinking": "probethought"}
    two = {**call, "tool_calls": [*call["tool_calls"], *_turn(arguments, empty, ids, 1)["tool_calls"]]}
    results = [_result(ids, 0), _result(ids, 1)]
    shown = [_ASK, said if form is None else call, results[0]]

    def text(*turns: str) -> str | None:
        messages = [{"role": role, "content": said} for role, said in zip(turns[::2], turns[1::2], strict=True)]
        return _text(render, messages, {"tools": no_tools, "functions": "[]"})

    return Shape(
        tools=tools,
        no_tools=no_tools,
        arguments=arguments,
        empty=empty,
        ids=ids,
        described=described,
        calls=form is not None,
        results=_renders(render, shown, offered, _RESULT),
        parallel=form is not None and _both(_text(render, [_ASK, two, *results], offered)),
        system=_shows(render, [system, _ASK], no_tools, _SYSTEM, _ASKED),
        late=_shows(render, [system, _ASK, said, late, _ASK], no_tools, _SYSTEM, _LATE),
        turns=_shows(render, [_ASK, {**_ASK, "content": _SAID}], no_tools, _ASKED, _SAID),
        beside=form is None or _renders(render, [_ASK, both, results[0]], offered, _VALUE, _SAID),
        heads=heads(text, _text(render, shown, offered), _RESULT, specials),
    )


def tools_variables(where: Tools, tools: Sequence[Any], no_tools: Any) -> dict[str, Any]:
    """The template's variables for these tools; those in the system message are none."""
    match where:
        case "tools":
            return {"tools": list(tools) or no_tools}
        case "xml_tools":
            return {"tools": no_tools, "xml_tools": list(tools) or None}
        case "functions":
            functions = [tool["function"] for tool in tools]
            return {"tools": no_tools, "functions": json.dumps(functions, ensure_ascii=False, indent=4)}
        case "system" | "none":
            return {"tools": no_tools}


def call_id(ids: Ids, id: str, name: str, index: int) -> str:
    """An id as the template takes it; `index` counts the conversation's calls."""
    match ids:
        case "ours":
            return id
        case "nine":
            return f"{index:09d}" if len(id) < 9 or not id[-9:].isalnum() else id[-9:]
        case "functions":
            return f"functions.{name}:{index}"


def with_descriptions(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The same, a description in every parameter that has none."""
    function = tool["function"]
    parameters = function["parameters"]
    properties = {
        key: {"description": "", **value} if isinstance(value, Mapping) else value
        for key, value in parameters.get("properties", {}).items()
    }
    return {**tool, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def _tools(render: Render) -> tuple[Tools, bool]:
    """Where it looks for tools, and whether their parameters must be described."""
    places: tuple[Tools, ...] = ("tools", "xml_tools", "functions")
    for tool in (_TOOL, with_descriptions(_TOOL)):
        for where in places:
            if _renders(render, [_ASK], tools_variables(where, [tool], None), _NAME, _KEY):
                return where, tool is not _TOOL
    said = {"role": "system", "content": _SYSTEM, "tools": f'[{{"name": "{_NAME}"}}]'}
    return ("system" if _shows(render, [said, _ASK], None, _NAME) else "none"), False


def _forms(render: Render, offered: Mapping[str, Any]) -> Iterator[tuple[Arguments, str | None, Ids]]:
    """The forms in which a call is shown, the usual one first."""
    arguments: tuple[Arguments, ...] = ("mapping", "text")
    ids: tuple[Ids, ...] = ("ours", "functions", "nine")
    for kind in ids:
        for form in arguments:
            for empty in ("", None):
                turns = [_ASK, _turn(form, empty, kind), _result(kind, 0)]
                text = _text(render, turns, offered)
                if text is None or not all(word in text for word in (_NAME, _KEY, _VALUE)):
                    continue
                told = _text(render, [_ASK], offered) or ""
                wrong = any(text.count(shape) > told.count(shape) for shape in _MISSHAPEN)
                if text.count(_NAME) > told.count(_NAME) and not wrong:
                    yield form, empty, kind


def _turn(arguments: Arguments, empty: str | None, ids: Ids, index: int = 0) -> dict[str, Any]:
    told: Any = {_KEY: _VALUE} if arguments == "mapping" else f'{{"{_KEY}": "{_VALUE}"}}'
    call = {"id": _id(ids, index), "type": "function", "function": {"name": _NAME, "arguments": told}}
    return {"role": "assistant", "content": empty, "tool_calls": [call]}


def _result(ids: Ids, index: int) -> dict[str, Any]:
    return {"role": "tool", "content": _RESULT, "name": _NAME, "tool_call_id": _id(ids, index)}


def _id(ids: Ids, index: int) -> str:
    return call_id(ids, f"call_0123456789abcdef0123456{index}", _NAME, index)


def _both(text: str | None) -> bool:
    return text is not None and text.count(_VALUE) == 2


def _shows(render: Render, messages: Sequence[Mapping[str, Any]], no_tools: Any, *words: str) -> bool:
    # Templates that look elsewhere for tools may fail without that variable.
    return _renders(render, messages, {"tools": no_tools, "functions": "[]"}, *words)


def _renders(
    render: Render, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], *words: str
) -> bool:
    text = _text(render, messages, variables)
    return text is not None and all(word in text for word in words)


def _text(render: Render, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> str | None:
    try:
        return render(messages, variables)
    except TemplateFailed:
        return None
