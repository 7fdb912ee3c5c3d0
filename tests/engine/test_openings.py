"""Where a call that nobody insists on begins to be held: text that can only be one, and whatever else stays free."""

import pytest

from appliance.engine.answer import Wanted, bound
from appliance.grammar.matcher import Constraint
from appliance.text import dialects, reasoning
from appliance.text.dialects.format import ToolFormat, Where
from appliance.text.reasoning.format import Start
from appliance.vocab.request import Tool
from tests.engine.test_answer import grammars

PING = Tool(name="ping", parameters={"type": "object", "properties": {"host": {"type": "string"}}})
TRACE = Tool(name="ping_all", parameters={})

HELD = {
    "json": [
        '{"name": "ping"',
        '  {"name" : "ping_all"',
        'I look.\n{"name":"ping"',
        '{"id": "1", "name": "ping"',
        '{"type": "function", "function": {"name": "ping"',
        '[{"name": "ping"',
        '[\n  {"name": "ping"',
        '[{"name": "ping", "arguments": {"host": "a"}},',
        '[{"name": "ping", "arguments": {"host": "a"}}, {"name": "',
        '```json\n{"name": "ping"',
        '```\n{"name": "ping"',
        'So:\n```json\n[{"name": "ping"',
        '```json\n{"name": "ping", "arguments": {}}\n',
        "<tool_call>",
        'Well: <tool_call>\n{"name": "ping"',
        '{"name": "ping", "arguments": {}}\n{"name": "ping_all"',
        '{"name": "Bob"}\n{"name": "ping"',
        '```\nx\n```\n{"name": "ping"',
    ],
    "llama3_json": [
        '{"name": "ping"',
        '{"type": "function", "name": "ping"',
        '{"name": "ping", "parameters": {}}; {"name": "ping_all"',
        'Let me see.\n{"name": "ping", "parameters": ',
        "<|python_tag|>",
    ],
    "llama4_pythonic": ["[ping(", "[ping(host=", "So:\n[ping(", '{"name": "ping"', "<|python_start|>", "[ping(), "],
    "xlam": [
        '[{"name": "ping"',
        '\n[ {"name":"ping"',
        '```json\n[{"name": "ping"',
        '[{"name": "ping", "arguments": {}}',
    ],
    "command_r": [
        'Action:\n```json\n[\n    {"tool_name": "ping"',
        'Action: ```json\n[{"tool_name": "ping"',
        'Plan: ping.\nAction: ```json\n{"tool_name": "ping"',
        'Action: ```json\n[{"tool_name": "ping", "parameters": {}}, {"tool_name": "ping',
    ],
    "functionary_v32": [
        "ping\n",
        "ping\n{",
        "all\nI look.>>>ping\n",
        "all\nI look.\n>>>ping_all\n",
        "ping\n{}>>>ping\n",
    ],
    "qwen3_coder": ["<tool_call>", "<function=ping>", "So. <function=ping_all>\n", "<tool_call>\n<function="],
    "hermes_json": ["<tool_call>", 'I look. <tool_call>\n{"name": "'],
}
FREE = {
    "json": [
        "",
        "{",
        '{"name": "',
        '{"name": "pin',
        '{"name": "Bob", "age": 3',
        '{"name": "ping pong"',
        '{"title": "ping"',
        '{"name": "Bob", "nick": {"name": "ping"',
        'I say {"name": "ping"',
        '[{"name": "Bob"}, {"name": "Eve"}]',
        '[1, {"name": "ping"',
        '```python\nx = {"name": "ping"',
        'See:\n```\nx\n{"name": "ping"',
        "`<tool_call>",
        '{"name": "ping", "arguments": {}}',
        '{"name": "ping", "arguments": {}} So ',
    ],
    "llama3_json": [
        "{",
        '{"name": "Bob"',
        '{"parameters": {}',
        '{"name": "ping", "parameters": {}}; ',
        '```\n{"name": "ping"',
    ],
    "llama4_pythonic": ["[", "[1, 2]", "[pong(", "[ping", "I call [ping(", "```python\n[ping("],
    "xlam": ["[", '[{"name": "Bob"', "[1, 2]", "See [1]:\n[", '{"name": "ping"', '```json\n{"name": "ping"', "[]"],
    "command_r": [
        "Action:",
        "Action: run\n",
        "Action: ```json\n[",
        'Action: ```json\n[\n    {"tool_name": "directly-answer"',
        'My Action: ```json\n[{"tool_name": "ping"',
        '[{"tool_name": "ping"',
    ],
    "functionary_v32": [
        "",
        "all\n",
        "all\nping\n",
        "pin",
        "other\n",
        "all\n>>>",
        "all\n>>>all\n",
        "all\n>>> print(1)\n",
    ],
    "qwen3_coder": ["<", "<function=", "<function=pong>", "`<tool_call>", "```\n<function=ping>"],
    "hermes_json": ["", "<tool_", '{"name": "ping"', "`<tool_call>"],
}
ROWS = [
    pytest.param(name, text, held, id=f"{name}: {text!r} is {'held' if held else 'free'}")
    for held, table in ((True, HELD), (False, FREE))
    for name, texts in table.items()
    for text in texts
]
_ODD = "\u00a7 "
"""What no call goes on with."""


def lazily(name: str, *, parallel: bool = True) -> Constraint:
    format, thinking = dialects.find(name), reasoning.find("none")
    assert format is not None
    assert thinking is not None
    asked = Wanted((PING, TRACE), parallel, None, f"user: hi\n{format.start}", Start.OPEN)
    made = grammars(special=False)
    held = bound(asked, format, thinking, made.split)
    assert held is not None
    return made.compile_source(held.source, "tools")


def says(constraint: Constraint, text: str) -> bool:
    """Whether the grammar lets it be said."""
    tokens = grammars(special=False)._constraints._tokenizer.tokenize_str(text)
    return constraint.start([]).allowed(tokens) == len(tokens)


@pytest.mark.parametrize(("name", "text", "held"), ROWS)
def test_a_call_is_held_from_where_it_can_be_nothing_else(name: str, text: str, held: bool) -> None:
    constraint = lazily(name)
    assert says(constraint, text)
    assert says(constraint, text + _ODD) is not held


@pytest.mark.parametrize("name", HELD)
def test_one_call_alone_is_held_too(name: str) -> None:
    constraint = lazily(name, parallel=False)
    assert not says(constraint, HELD[name][0] + _ODD)
    assert says(constraint, FREE[name][1] + _ODD)


EXACT = [row for row in dialects.DIALECTS if row.form is not None and row.form.exact and not row.frames]


@pytest.mark.parametrize("format", EXACT, ids=lambda row: row.name)
def test_where_every_call_is_held_no_other_can_begin(format: ToolFormat) -> None:
    assert format.form is not None
    held = {format.form.opening, *(opening.tag for opening in format.form.openings)}
    constraint = lazily(format.name)
    for opener in format.openers:
        if opener.where is Where.LINE:
            assert any(bar.startswith(opener.text) for bar in format.form.barred), opener
        elif opener.text not in held:
            assert not says(constraint, f"I see. {opener.text}"), opener


def test_an_old_way_to_call_that_is_barred_is_text_up_to_its_block() -> None:
    assert says(lazily("command"), "Action: run\nand rest")
    assert not says(lazily("command"), "Plan.\nAction:\n```json\n[")
