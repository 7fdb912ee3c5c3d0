"""Every dialect's grammar: what can be said under it is a call that reads back and validates, whatever is sampled."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import jsonschema
import msgspec
import numpy as np
import pytest

from appliance.engine.answer import Wanted, bound
from appliance.engine.constraint import Grammars
from appliance.errors import BadRequest, Unsupported
from appliance.grammar.matcher import Constraint, Masks
from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.text.dialects.format import ToolFormat
from appliance.text.reasoning.format import Reasoning
from appliance.vocab.event import ReasoningDelta, TextDelta, ToolCallDelta
from appliance.vocab.request import Grammar, Tool
from tests.checkpoints import smollm2

ROWS: list[ToolFormat | Reasoning] = [*dialects.DIALECTS, *reasoning.DIALECTS]
FORMATS = [row for row in dialects.DIALECTS if row.form is not None]
LAZY = [row for row in FORMATS if row.form.opening]
EOS, VOCABULARY = 2, 49152

ORDER = Tool(
    name="place_order",
    parameters={
        "type": "object",
        "properties": {
            "item": {"type": "string", "minLength": 1, "maxLength": 12},
            "count": {"type": "integer", "minimum": 1, "maximum": 20},
            "size": {"enum": ["small", "large"]},
            "gift": {"type": "boolean"},
            "note": {"type": ["string", "null"], "maxLength": 8},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            "where": {
                "type": "object",
                "properties": {
                    "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}$"},
                    "lift": {"type": "boolean"},
                },
                "required": ["code"],
                "additionalProperties": False,
            },
        },
        "required": ["count", "item", "where"],
        "additionalProperties": False,
        "$defs": {"tag": {"type": "integer", "minimum": 0, "maximum": 9}},
    },
)
PING = Tool(name="ping", parameters={})
TOOLS = {tool.name: tool for tool in (ORDER, PING)}


@cache
def grammars(special: bool) -> Grammars:
    """The real tokenizer; `special`: with every dialect's tags as special tokens."""
    specials = sorted({tag for row in ROWS for tag in tags_of(row)}) if special else []
    tokenizer = json.loads((smollm2() / "tokenizer.json").read_text())
    size = len(tokenizer["model"]["vocab"])
    tokenizer["added_tokens"] += [
        {"id": size + at, "content": tag, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for at, tag in enumerate(specials)
    ]  # fmt: skip
    text = json.dumps(tokenizer)
    return Grammars(lambda: text, size + len(specials), {EOS})


@dataclass
class Walk:
    """Tokens drawn at random among those allowed, those that end something often."""

    text: bytes = b""
    ended: bool = False


def walk(made: Grammars, constraint: Constraint, seed: int, *, most: int = 400, said: str = "") -> Walk:
    chance = random.Random(seed)
    tokenizer = made._constraints._tokenizer
    begun = tokenizer.tokenize_str(said, parse_special=True)
    matcher = constraint.start(begun)
    assert not matcher.error, matcher.error
    words = -(-made._vocab_size // 32)
    row = np.zeros(words, dtype=np.int32)
    walked = Walk(said.encode())
    for _ in range(most):
        row[:] = -1
        MASKS.fill([matcher], row.ctypes.data, words * 4)
        allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: made._vocab_size]
        ends = (allowed & closing(made)).nonzero()[0]
        any = allowed.nonzero()[0]
        assert len(any), "nothing may be said"
        token = int(chance.choice(ends if len(ends) and chance.random() < 0.6 else any))
        if allowed[EOS] and (token == EOS or chance.random() < 0.3):
            walked.ended = True
            break
        matcher.accept(token)
        assert not matcher.error, matcher.error
        walked.text += tokenizer.decode_bytes([token])
    return walked


MASKS = Masks(threads=1)


@cache
def closing(made: Grammars) -> np.ndarray:
    """The end, special tokens, and tokens with brackets, quotes and tags in them: 1 for each."""
    tokenizer = made._constraints._tokenizer
    marks = (b'"', b"}", b"]", b")", b"<", b">", b"\n", b"/", b"|")
    found = np.zeros(made._vocab_size, dtype=np.uint8)
    for token in range(made._vocab_size):
        if tokenizer.is_special_token(token):
            found[token] = token >= VOCABULARY
        else:
            found[token] = any(mark in tokenizer.decode_bytes([token]) for mark in marks)
    return found


def parsed(
    text: str, format: ToolFormat, thinking: Reasoning, prompt: str, *, cut: bool, held: bool = True
) -> tuple[str, str, list[tuple[str, str]], dict[str, int]]:
    parser = Channels(
        reasoning=thinking, tools=format, declared={name: tool.parameters for name, tool in TOOLS.items()},
        new_id=iter(map(str, range(10**6))).__next__, prompt=prompt, constrained=held,
    )  # fmt: skip
    thought, said, names, arguments = "", "", {}, {}
    for delta in [*parser.feed(text), *parser.close(cut=cut)]:
        match delta:
            case ReasoningDelta(more):
                thought += more
            case TextDelta(more):
                said += more
            case ToolCallDelta(index, _, name, more):
                names.setdefault(index, name)
                arguments[index] = arguments.get(index, "") + more
    return thought, said, [(names[at], arguments[at]) for at in names], dict(parser.warnings)


def tags_of(row: ToolFormat | Reasoning) -> tuple[str, ...]:
    return row.tags if isinstance(row, ToolFormat) else row.markers


def forced(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    return tuple(Tool(name=tool.name, parameters=tool.parameters, forced=True) for tool in tools)


def wanted(tools: Sequence[Tool], thinking: Reasoning, prompt: str = "", form: Grammar | None = None) -> Wanted:
    return Wanted(tuple(tools), True, form, prompt, thinking.start(prompt))


def thoughts_of(format: ToolFormat) -> Reasoning:
    """The reasoning that belongs to a format whose frames say what is reasoning; none for others."""
    found = reasoning.find(format.name if format.frames else "none")
    assert found is not None
    return found


def check(calls: list[tuple[str, str]]) -> None:
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), TOOLS[name].parameters)


special = pytest.mark.parametrize("special", [False, True], ids=["tags are text", "tags are special tokens"])
seeds = pytest.mark.parametrize("seeds", [2, pytest.param(40, marks=pytest.mark.proof)])


@seeds
@special
@pytest.mark.parametrize("format", FORMATS, ids=lambda row: row.name)
def test_forced_calls_read_back_and_validate(format: ToolFormat, special: bool, seeds: int) -> None:
    made, thinking = grammars(special), thoughts_of(format)
    held = bound(wanted(forced((ORDER, PING)), thinking, format.start), format, thinking, made.split)
    assert held is not None
    assert (held.format, held.calls) == (format, True)
    constraint = made.compile_source(held.source, "tool_choice")
    for seed in range(seeds):
        walked = walk(made, constraint, seed)
        text = walked.text.decode("utf-8", "replace")
        _, said, calls, warnings = parsed(text, format, thinking, format.start, cut=not walked.ended)
        assert not warnings or not walked.ended, text
        if walked.ended:
            assert calls, text
            assert format.frames or not said.strip(), text
            check(calls)


@seeds
@special
@pytest.mark.parametrize("format", LAZY, ids=lambda row: row.name)
def test_a_call_in_free_text_is_held_to_its_form(format: ToolFormat, special: bool, seeds: int) -> None:
    made, thinking = grammars(special), thoughts_of(format)
    opening = format.form.opening if format.form else ""
    held = bound(wanted((ORDER, PING), thinking), format, thinking, made.split)
    assert held is not None
    constraint = made.compile_source(held.source, "tools")
    before = "" if format.frames else f"I see.\n```\n{'' if special else opening} x\n```\n"
    done = 0
    for seed in range(seeds):
        walked = walk(made, constraint, seed, said=before + opening)
        text = walked.text.decode("utf-8", "replace")
        _, said, calls, warnings = parsed(text, format, thinking, "", cut=not walked.ended, held=held.calls)
        assert before.strip() in said.replace("\ufffd", ""), text
        if walked.ended:
            done += 1
            assert calls, text
            assert not held.calls or not warnings.keys() - {"call inside code"}, text
            check(calls)
    assert done or seeds < 5


BEGUN = {
    "json": [
        '{"name": "Bob"}\n{"name": "place_order"',
        '[\n{"name": "place_order", ',
        '```json\n{"function": {"name": "place_order"',
        '```\n[{"name": "place_order"',
        '<tool_call>\n{"name": "place_order"',
    ],
    "llama3_json": ['{"type": "function", "name": "place_order"'],
    "llama4_pythonic": ["[place_order(", '{"name": "place_order"'],
    "xlam": ['[{"name": "place_order"', '```json\n[{"name": "place_order"'],
    "command_r": [
        'Action:\n```json\n[\n    {"tool_name": "place_order"',
        'Action: ```json\n{"tool_name": "place_order"',
    ],
    "functionary_v32": ["place_order\n", "all\nI look.>>>place_order\n", ">>>place_order\n"],
    "qwen3_coder": ["I look.<function=place_order>"],
}


@seeds
@pytest.mark.parametrize(
    ("name", "begun"),
    [pytest.param(name, text, id=f"{name}: {text!r}") for name, texts in BEGUN.items() for text in texts],
)
def test_a_call_that_no_tag_opens_is_held_to_its_form(name: str, begun: str, seeds: int) -> None:
    format, made = dialects.find(name), grammars(special=False)
    assert format is not None
    thinking = thoughts_of(format)
    prompt = format.start if not begun.startswith(format.start or "\0") else ""
    held = bound(wanted((ORDER, PING), thinking, prompt), format, thinking, made.split)
    assert held is not None
    constraint = made.compile_source(held.source, "tools")
    for seed in range(seeds):
        walked = walk(made, constraint, seed, said=begun)
        text = walked.text.decode("utf-8", "replace")
        _, _, calls, warnings = parsed(text, format, thinking, prompt, cut=not walked.ended, held=held.calls)
        if walked.ended:
            assert calls, text
            assert calls[0][0] == ORDER.name
            check(calls if held.calls else calls[:1])
            assert not held.calls or not warnings.keys() - {"call inside code"}, text


THINK = [row for row in reasoning.DIALECTS if (row.open or row.thoughts) and row.name != "kimi_k3"]
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@special
@pytest.mark.parametrize("inside", [False, True], ids=["before the reasoning", "inside it"])
@pytest.mark.parametrize("thinking", THINK, ids=lambda row: row.name)
def test_reasoning_is_free_and_the_answer_has_its_form(thinking: Reasoning, inside: bool, special: bool) -> None:
    made = grammars(special)
    form = Grammar("json_schema", json.dumps(FORM))
    prompt = thinking.open[0] if inside and thinking.open else ""
    none = dialects.find("none")
    assert none is not None
    held = bound(wanted((), thinking, prompt, form), none, thinking, made.split)
    assert held is not None
    constraint = made.compile_source(held.source, "response_format")
    begin = thinking.thoughts[0] if thinking.thoughts else "" if prompt else thinking.open[0]
    end = (thinking.thought_end if thinking.thoughts else thinking.close[0]) + thinking.answer[0]
    for seed in range(3):
        walked = walk(made, constraint, seed, said=f'{begin}Well, {{"n": }} <x>?{end}', most=60)
        assert walked.ended
        text = walked.text.decode("utf-8", "replace")
        thought, said, _, _ = parsed(text, none, thinking, prompt, cut=False)
        jsonschema.validate(json.loads(said), FORM)
        assert thought.strip().endswith('Well, {"n": } <x>?')


FORMS = {
    "a schema": Grammar("json_schema", json.dumps(FORM)),
    "any object": Grammar("json_object"),
    "a choice": Grammar("choice", '["yes", "no"]'),
    "a regular expression": Grammar("regex", "[a-c]{2}"),
    "a grammar": Grammar("lark", 'start: A "!"\nA: /[a-z]/'),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_kind_of_form_may_stand_behind_reasoning(form: Grammar) -> None:
    made, none, thinking = grammars(special=False), dialects.find("none"), reasoning.find("think_tags")
    assert none is not None
    assert thinking is not None
    held = bound(wanted((), thinking, "", form), none, thinking, made.split)
    assert held is not None
    walked = walk(made, made.compile_source(held.source, "form"), 1, said="<think>x</think>", most=200)
    assert walked.ended
    _, said, _, _ = parsed(walked.text.decode("utf-8", "replace"), none, thinking, "", cut=False)
    alone = made.compile(form).start(made._constraints._tokenizer.tokenize_str(said.strip()))
    assert not alone.error


UNFIT = Tool(name="odd", parameters={"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}]})


def test_a_schema_that_a_format_cannot_say_is_forced_in_another() -> None:
    made = grammars(special=False)
    coder, thinking = dialects.find("qwen3_coder"), reasoning.find("none")
    assert coder is not None
    assert thinking is not None
    held = bound(wanted(forced((UNFIT,)), thinking), coder, thinking, made.split)
    assert held is not None
    assert held.format.name == "json"
    assert bound(wanted((UNFIT,), thinking), coder, thinking, made.split) is None
    strict = Tool(name=UNFIT.name, parameters=UNFIT.parameters, strict=True)
    with pytest.raises(Unsupported, match="anyOf"):
        bound(wanted((strict,), thinking), coder, thinking, made.split)


PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change?
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line
change: (change_context | change_line)+
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
%import common.LF
"""
LARK = {
    "a patch": PATCH,
    "a sum": 'start: NUM (("+" | "-") NUM)*\nNUM: /[0-9]{1,3}/\n%ignore / +/',
    "any text": "start: /(?s:.*)/",
    "lines": "start: LINE+\nLINE: /.+/ NL?\nNL: /\\n/",
    "quoted": r'start: "\"" /[^"]*/ "\"" "\\"?',
}
UNTOLD = [row for row in reasoning.DIALECTS if row.frames is None]


@seeds
@pytest.mark.parametrize("grammar", LARK.values(), ids=LARK.keys())
def test_a_forced_text_follows_the_grammar_of_its_tool(grammar: str, seeds: int) -> None:
    made = grammars(special=False)
    json_calls, thinking = dialects.find("json"), reasoning.find("none")
    assert json_calls is not None
    assert thinking is not None
    tools = tuple(Tool(name=name, grammar=grammar, forced=True) for name in TOOLS)
    held = bound(wanted((*tools, Tool(name="free")), thinking), json_calls, thinking, made.split)
    assert held is not None
    constraint, alone = made.compile_source(held.source, "tools"), made.compile(Grammar("lark", grammar))
    done = 0
    for seed in range(max(seeds, 6)):
        walked = walk(made, constraint, seed, most=120)
        text = walked.text.decode("utf-8", "replace")
        if not walked.ended or "\ufffd" in text:
            continue
        done += 1
        _, said, [(name, arguments)], _ = parsed(text, held.format, thinking, "", cut=False)
        assert (said, name in TOOLS) == ("", True)
        written = json.loads(arguments)["input"]
        assert text.endswith(written)
        follows = alone.start(made._constraints._tokenizer.tokenize_str(written))
        assert not follows.error
        assert follows.inner is not None
        assert follows.inner.is_accepting()
    assert done or grammar == PATCH


@pytest.mark.parametrize("thinking", UNTOLD, ids=lambda row: row.name)
def test_a_patch_is_written_behind_any_reasoning(thinking: Reasoning) -> None:
    made, json_calls = grammars(special=True), dialects.find("json")
    assert json_calls is not None
    tool = Tool(name="ping", grammar=PATCH, forced=True)
    held = bound(wanted((tool,), thinking), json_calls, thinking, made.split)
    assert held is not None
    patch = '*** Begin Patch\n*** Update File: a "b".py\n@@ x\n-</x>\\n\n+ü\n*** End Patch'
    thought = f"{thinking.open[0]}Well.{thinking.close[0]}" if thinking.open else ""
    said = f"{thought}<tool_input=ping>\n{patch}"
    walked = walk(made, made.compile_source(held.source, "tools"), 0, said=said, most=0)
    _, _, [(name, arguments)], _ = parsed(walked.text.decode(), held.format, thinking, "", cut=False)
    assert (name, json.loads(arguments)) == ("ping", {"input": patch})


def test_a_grammar_that_is_none_is_refused_where_its_call_is_forced() -> None:
    made, json_calls, thinking = grammars(special=False), dialects.find("json"), reasoning.find("none")
    assert json_calls is not None
    assert thinking is not None
    tool = Tool(name="ping", grammar="start: nothing")
    assert bound(wanted((tool,), thinking), json_calls, thinking, made.split) is not None
    with pytest.raises(BadRequest, match="lark cannot be used"):
        bound(wanted((msgspec.structs.replace(tool, forced=True),), thinking), json_calls, thinking, made.split)
