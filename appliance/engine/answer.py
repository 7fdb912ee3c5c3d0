"""What a whole answer is held to: reasoning is free, then come text with calls, forced calls, or a given form."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from appliance.errors import BadRequest, Unsupported
from appliance.grammar.source import inline_json, usable
from appliance.grammar.source import source as form_source
from appliance.text import raw_call
from appliance.text.dialects.format import ToolFormat, Where
from appliance.text.dialects.json import FORMAT as GENERIC
from appliance.text.forms import Form
from appliance.text.lark import ANY, Lark, Split, Unfit, either, quoted, without
from appliance.text.openings import LINE, heads, rest
from appliance.text.reasoning.format import Reasoning, Start
from appliance.text.surroundings import UNQUOTED
from appliance.vocab.request import Grammar, Tool

MOST_CALLS = 16
"""So many calls in a row may be forced; a small model would never end."""
_GAP = "[\\n ]{1,2}"
FORM = "@form"
_ANYTHING: Mapping[str, Any] = {"type": "object"}
_NOTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Wanted:
    """`form` is the grammar that is asked for; `prompt` is how the prompt ends, `start` where the answer begins."""

    tools: tuple[Tool, ...]
    parallel: bool
    form: Grammar | None
    prompt: str
    start: Start


@dataclass(frozen=True, slots=True)
class Bound:
    """The grammar's text, and the format of its calls: none that is read can be malformed where `calls` is set."""

    source: str
    format: ToolFormat
    calls: bool


def bound(wanted: Wanted, format: ToolFormat, thinking: Reasoning, split: Split) -> Bound | None:
    """None where the answer is free. Raises BadRequest, Unsupported naming the tool that nothing can be held to."""
    forced = tuple(tool for tool in wanted.tools if tool.forced)
    if forced:
        return _forced(wanted, forced, format, thinking, split)
    if wanted.tools and format.form is not None:
        found = _lazily(wanted, format, format.form, thinking, split)
        if found is not None:
            return found
    if wanted.form is None:
        return None
    lark = Lark(split, inline_json)
    return Bound(_whole(lark, wanted, thinking, _said(lark, thinking, FORM)), format, calls=False)


def _forced(wanted: Wanted, tools: tuple[Tool, ...], format: ToolFormat, thinking: Reasoning, split: Split) -> Bound:
    """Forced calls, in the model's own form where their schemas can be said in it."""
    if all(tool.grammar for tool in tools) and thinking.frames is None:
        return _raw(wanted, tools, thinking, split)
    for tool in tools:
        _check(tool)
    for each in (format, GENERIC):
        if each.form is None:
            continue
        lark = Lark(split, inline_json)
        try:
            several = wanted.parallel and len(tools) > 1 and not each.form.single
            calls = _calls(lark, each.form, tools, MOST_CALLS if several else 1, _begin(each, wanted))
            return Bound(_whole(lark, wanted, thinking, calls), each, calls=True)
        except Unfit:
            continue
    raise AssertionError("the generic form takes every schema")


def _raw(wanted: Wanted, tools: tuple[Tool, ...], thinking: Reasoning, split: Split) -> Bound:
    """One call that follows the grammar of its tool, to the end of the answer. Raises BadRequest."""
    lark = Lark(split, inline_json)
    inputs = {f"@input{at}": Grammar("lark", tool.grammar, "tools") for at, tool in enumerate(tools)}
    calls = [f"{lark.text(raw_call.head(tool.name))} {name}" for tool, name in zip(tools, inputs, strict=True)]
    return Bound(_whole(lark, wanted, thinking, either(calls), inputs), raw_call.FORMAT, calls=True)


def _lazily(wanted: Wanted, format: ToolFormat, form: Form, thinking: Reasoning, split: Split) -> Bound | None:
    """Free text, or what form it has; behind the tag that opens calls, a call."""
    tools = tuple(_loosened(tool) for tool in wanted.tools)
    lark = Lark(split, inline_json)
    try:
        body = _parted(lark, wanted, format, form, tools, thinking)
    except Unfit as unfit:
        if strict := [tool.name for tool in wanted.tools if tool.strict]:
            raise Unsupported(
                f"this model's calls cannot be held to {unfit} (strict: {', '.join(strict)}); simplify the schema",
                param="tools",
            ) from unfit
        return None
    return Bound(_whole(lark, wanted, thinking, body), format, calls=form.exact)


def _parted(
    lark: Lark, wanted: Wanted, format: ToolFormat, form: Form, tools: Sequence[Tool], thinking: Reasoning
) -> str:
    """What is said beside calls, and the calls. Raises Unfit."""
    most = MOST_CALLS if wanted.parallel else 1
    if wanted.form is not None or thinking.answer[0]:
        calls = _calls(lark, form, tools, most, form.opening + _behind(form), rest=True)
        first = _calls(lark, form, tools, most, _begin(format, wanted), rest=True) if form.begin else calls
        said = _said(lark, thinking, FORM if wanted.form is not None else lark.terminal(ANY))
        both = f"{said} {calls}? | " if thinking.answer[1] else f"{said} | "
        return f"({both}{first})"
    begun, free, opened = _ways(lark, wanted, format, form, tools, thinking)
    text = lark.terminal(ANY, *_barred(lark, format, form))
    if wanted.parallel and not form.single:
        more = [*opened, *(f"{head} {rest}?" for head, rest in free)]
        return f"{begun}? ({either(more)})* {text}"
    last = either([*opened, *(f"{head} {rest}" for head, rest in free), text])
    looked = f"({either([head for head, _ in free])})* " if free else ""
    return f"({begun} | {looked}{last})"


def _ways(
    lark: Lark, wanted: Wanted, format: ToolFormat, form: Form, tools: Sequence[Tool], thinking: Reasoning
) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Calls that the prompt has begun; text up to where a tool's name would begin a call, each with the rest of it;
    text with the tag that opens calls, and these. None stands in code that is quoted.
    """
    no_thought = [f"~[ \\n\\r\\t]*{quoted(tag)}{ANY}" for tag in thinking.open]
    free = (UNQUOTED, f"~{ANY}`", *no_thought, *_barred(lark, format, form))
    most = MOST_CALLS if wanted.parallel else 1
    schemas = {tool.name: _arguments(tool) for tool in tools}
    rests = [rest(lark, opening, schemas, most) for opening in form.openings]
    prompted = format.start and wanted.prompt.endswith(format.start)
    begun = [rest for way, rest in zip(form.openings, rests, strict=True) if prompted and way.tag == format.start]
    opened = []
    if form.opening:
        gap = "" if form.begin else f"{lark.terminal(_GAP)}? "
        close = f" ({lark.terminal(_GAP)}? {lark.text(form.close)})?" if form.close else ""
        calls = _calls(lark, form, tools, most, _behind(form), rest=True)
        opened = [f"{lark.until(form.opening, *free, quoted=True)} {gap}{calls}{close}"]
    return either(begun or ['""']), list(zip(heads(lark, form.openings, free), rests, strict=True)), opened


def _barred(lark: Lark, format: ToolFormat, form: Form) -> list[str]:
    """Patterns that keep calls out of free text: those that begin in a way they are not held in."""
    held = {form.opening, *(opening.tag for opening in form.openings)}
    tags = [opener.text for opener in format.openers if opener.where is Where.ANYWHERE and opener.text not in held]
    shown = [form.opening] if form.opening and lark.special(form.opening) else []
    return [*map(without, (*([] if format.frames else tags), *shown)), *(f"~{LINE}{bar}{ANY}" for bar in form.barred)]


# --- calls


def _calls(lark: Lark, form: Form, tools: Sequence[Tool], most: int, begin: str, rest: bool = False) -> str:
    """One to `most` calls, `begin` before the first. The `rest` of a section that is open holds one where each call
    has a section of its own.
    """
    one = lark.rule(either([form.call(lark, tool.name, _arguments(tool)) for tool in tools]))
    first = f"{lark.text(begin)} {one}"
    if form.each:
        more = f"{lark.text(form.between + form.begin)} {one} {lark.text(form.end)}"
        many = f" ({more}){{0,{most - 1}}}" if most > 1 and not rest else ""
        return f"{first} {lark.text(form.end)}{many}"
    many = f" ({lark.text(form.between)} {one}){{0,{most - 1}}}" if most > 1 and not form.single else ""
    return f"{first}{many} {lark.text(form.end)}"


def _arguments(tool: Tool) -> Mapping[str, Any]:
    """Arguments are always an object; a tool that says nothing of them takes none."""
    return {"type": "object", **tool.parameters} if tool.parameters else _NOTHING


def _begin(format: ToolFormat, wanted: Wanted) -> str:
    """What an answer begins its calls with, where the prompt does not."""
    assert format.form is not None
    begin = format.form.begin
    return begin.removeprefix(format.start) if format.start and wanted.prompt.endswith(format.start) else begin


def _behind(form: Form) -> str:
    """What follows the opening tag before the first call."""
    return form.begin.removeprefix(form.opening) if form.begin.startswith(form.opening) else form.begin


def _loosened(tool: Tool) -> Tool:
    """A schema that no grammar can be made of binds nothing, unless it is to be strict."""
    if usable(tool.parameters):
        return tool
    if tool.strict:
        _check(tool)
    return Tool(name=tool.name, parameters=dict(_ANYTHING))


def _check(tool: Tool) -> None:
    if not usable(tool.parameters):
        raise BadRequest(f"the parameters of tool {tool.name!r} cannot be made a grammar of", param="tools")


# --- reasoning


def _whole(
    lark: Lark, wanted: Wanted, thinking: Reasoning, body: str, inputs: Mapping[str, Grammar] = MappingProxyType({})
) -> str:
    """The grammar of the answer with the reasoning before it; `inputs` are those that the body names."""
    last = f" {lark.rule(lark.text(thinking.last))}?" if thinking.last else ""
    source = lark.source(f"{_thought(lark, thinking, wanted.start)} {body}{last}")
    named = {**inputs, FORM: wanted.form} if wanted.form is not None and FORM in body else inputs
    if not named:
        return json.dumps({"grammars": [{"lark_grammar": source}]})
    grammars: list[Any] = [{"name": "answer", "lark_grammar": source}]
    for name, grammar in named.items():
        first, *others = json.loads(form_source(grammar))["grammars"]
        grammars += [{**first, "name": name[1:]}, *others]
    return json.dumps({"grammars": grammars})


def _thought(lark: Lark, thinking: Reasoning, start: Start) -> str:
    """Reasoning as far as it is still to come, and white space behind it."""
    if thinking.thoughts:
        begun = either([lark.text(begin) for begin in thinking.thoughts])
        return f"({begun} {lark.until(thinking.thought_end, ANY)})*"
    if not thinking.open or start is Start.OVER:
        return ""
    closed = f"{either([lark.until(close, ANY) for close in thinking.close])} {lark.terminal(_GAP)}?"
    opened = lark.rule(either([lark.text(tag) for tag in thinking.open]))
    # Some models repeat the tag that their prompt ended with.
    return f"{opened}? {closed}" if start is Start.INSIDE else f"({opened} {closed})?"


def _said(lark: Lark, thinking: Reasoning, what: str) -> str:
    """The answer itself, in the frame or the tags that the format has for it."""
    begin, end = thinking.answer
    if begin:
        return f"{lark.text(begin)} {what} {lark.text(end)}"
    return either([what, *(f"{lark.text(begin)} {what} {lark.text(end)}" for begin, end in thinking.wraps)])
