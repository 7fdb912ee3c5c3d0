"""What each format's answers become; every row again with the text split at every character."""

import json

import pytest

from appliance.text import dialects
from tests.text.folding import channels, every_way, fold
from tests.text.wire import WIRES, Wire

TOOLS = {
    "rent": {
        "type": "object",
        "properties": {
            "boat": {"type": "string"},
            "hours": {"type": "integer"},
            "note": {"type": "string"},
            "extras": {"type": "array", "items": {"type": "string"}},
            "skipper": {"type": ["string", "null"]},
            "deposit": {"type": "number"},
            "insured": {"type": "boolean"},
            "route": {"type": "object"},
        },
    },
    "tick": {"type": "object", "properties": {}},
}
ROWBOAT = ("rent", {"boat": "rowboat", "hours": 2})
TICK = ("tick", {})
TYPED = (
    "rent",
    {
        "boat": "007",
        "hours": 12,
        "note": "true",
        "extras": ["oars", "a|b"],
        "skipper": None,
        "deposit": -3.5,
        "insured": False,
        "route": {"from": "Łeba", "stops": [{"at": 1, "ok": True}], "via": None},
    },
)
NESTED = (
    "rent",
    {"boat": 'a "b" {c} [d] (e), f=g', "note": "back\\slash \\n and\nline\ttab", "route": {"k": {"x": []}}},
)
UNICODE = ("rent", {"boat": "🛶 ｜海▁ é ñ", "note": "👩‍👩‍👧 «ø»"})
STRAY = ("rent", {"boat": "raft", "note": "the </tool_call> or ]</TOOLCALL> }; [/ARGS] tag, then </function> on"})
FOREIGN = ("sail", {"boat": "yacht"})

FRAMED = ("harmony", "kimi_k3")
"""Formats whose frames say what is reasoning."""

FORMATS = pytest.mark.parametrize(("name", "wire"), WIRES.items(), ids=WIRES)


def answer(name: str, wire: Wire, text: str, *, cut: bool = False, thinks: str | None = None):
    """(content, calls, all of it) of an answer, the same however it is split."""
    frames = name if name in FRAMED else "none"
    folded = every_way(text, lambda: channels(name, thinks or frames, declared=TOOLS, prompt=wire.prompt), cut=cut)
    return folded.content.strip(), [] if cut else [(tool, json.loads(text)) for tool, text in folded.calls], folded


def test_every_format_is_written_here():
    assert set(WIRES) == {row.name for row in dialects.DIALECTS} - {"none"}


@FORMATS
@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([ROWBOAT], id="one"),
        pytest.param([TICK], id="without arguments"),
        pytest.param([ROWBOAT, TICK, ROWBOAT], id="several"),
        pytest.param([TYPED], id="typed"),
        pytest.param([NESTED], id="nested"),
        pytest.param([UNICODE], id="unicode"),
        pytest.param([STRAY, TICK], id="closing tags in a string"),
    ],
)
def test_calls_are_read(name, wire, calls):
    assert answer(name, wire, wire.say("") + wire.calls(calls))[:2] == ("", calls)


@FORMATS
def test_text_stands_around_calls(name, wire):
    glue = "\n" if wire.bare else ""
    text = wire.say("I look a < b.") + glue + wire.calls([ROWBOAT]) + ("\nDone." if wire.after else "")
    content, calls, _ = answer(name, wire, text)
    assert (content, calls) == ("I look a < b." + ("Done." if wire.after else ""), [ROWBOAT])


@FORMATS
def test_a_malformed_call_is_text(name, wire):
    text = wire.broken(wire.calls([ROWBOAT]))
    assert text != wire.calls([ROWBOAT])
    content, calls, folded = answer(name, wire, wire.say("") + text)
    assert calls == []
    assert set(folded.warnings) == (set() if wire.bare else {"malformed call"})
    if not wire.prompt:  # frames are dropped, what stands in them is not
        assert content == text
    assert "boat" in content


@FORMATS
def test_a_call_of_an_undeclared_tool_is_text(name, wire):
    text = wire.calls([FOREIGN])
    content, calls, folded = answer(name, wire, wire.say("") + text)
    assert calls == []
    assert content == text or (wire.prompt and "yacht" in content)
    assert folded.warnings["undeclared tool 'sail'"] == 1


@FORMATS
def test_what_follows_a_call_that_was_none_is_still_read(name, wire):
    broken, whole = wire.broken(wire.calls([ROWBOAT])), wire.calls([TICK])
    if wire.prompt == ">>>":
        text = f"{broken}>>>{whole}"
    elif wire.prompt:
        text = f"{broken}{wire.prompt}{whole}"
    else:
        text = f"{broken}\n{whole}"
    assert answer(name, wire, text)[1] == [TICK]


@FORMATS
def test_a_call_that_is_cut_off_is_given_out_as_far_as_it_came(name, wire):
    whole = wire.calls([("rent", {"boat": "rowboat", "note": "we begin to wr"})])
    text = wire.say("") + whole[: whole.index("to wr") + 5]
    content, _, folded = answer(name, wire, text, cut=True)
    assert content == ""
    assert [tool for tool, _ in folded.calls] == ["rent"]
    arguments = folded.calls[0][1]
    assert arguments == "" or ("rowboat" in arguments and not complete(arguments))
    assert "call cut off" in folded.warnings


@FORMATS
def test_whole_calls_before_one_that_is_cut_off_stand(name, wire):
    whole = wire.calls([TICK, ("rent", {"boat": "rowboat", "note": "we begin to wr"})])
    text = wire.say("") + whole[: whole.index("to wr") + 5]
    _, _, folded = answer(name, wire, text, cut=True)
    assert folded.calls[0] == ("tick", "{}")
    assert [tool for tool, _ in folded.calls] == ["tick", "rent"]


@FORMATS
def test_a_call_without_an_end_is_text_where_the_model_stopped(name, wire):
    whole = wire.calls([("rent", {"boat": "rowboat", "note": "we begin to wr"})])
    text = whole[: whole.index("to wr") + 5]
    content, calls, folded = answer(name, wire, wire.say("") + text)
    assert calls == []
    assert content == text or (wire.prompt and content.endswith("we begin to wr"))
    assert wire.bare or folded.warnings == {"call cut off": 1}


def complete(arguments: str) -> bool:
    try:
        return bool(json.loads(arguments))
    except ValueError:
        return False


@FORMATS
def test_a_call_in_a_code_fence_is_text(name, wire):
    if wire.prompt:
        pytest.skip("its frames are special tokens: nothing quotes them")
    text = f"As in\n```text\n{wire.calls([ROWBOAT])}\n```\nand so on."
    content, calls, folded = answer(name, wire, text)
    assert (content, calls) == (text, [])
    assert wire.bare or set(folded.warnings) == {"call inside code"}


@FORMATS
def test_a_fence_that_was_closed_hides_nothing(name, wire):
    text = f"```\ncode\n```\n{wire.calls([ROWBOAT])}" if not wire.prompt else wire.calls([ROWBOAT])
    assert answer(name, wire, text)[1] == [ROWBOAT]


@pytest.mark.parametrize("name", [name for name, wire in WIRES.items() if wire.fenced])
def test_formats_that_fence_their_calls_may_do_so(name):
    wire = WIRES[name]
    assert answer(name, wire, f"```json\n{wire.calls([ROWBOAT])}\n```")[:2] == ("", [ROWBOAT])


@FORMATS
def test_a_tag_behind_a_backtick_is_quoted(name, wire):
    opener = dialects.find(name).openers[0].text
    text = f"Say `{opener}` to begin, `{opener}` each time."
    if not wire.prompt:
        assert answer(name, wire, text)[:2] == (text, [])


THINKING = {
    "think_tags": "<think>{}</think>\n",
    "deepseek_r1": "{}\n</think>\n\n",
    "mistral_think": "[THINK]{}[/THINK]",
    "granite": "<think>{}</think>",
    "gemma4_channel": "<|channel>thought\n{}\n<channel|>",
    "seed_think": "<seed:think>{}</seed:think>",
    "command": "<|START_THINKING|>{}<|END_THINKING|>",
    "harmony": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant",
    "kimi_k3": "<|open|>think<|sep|>{}<|close|>think<|sep|>",
    "apertus": "<|inner_prefix|>{}<|inner_suffix|>",
}


@FORMATS
def test_reasoning_comes_before_calls_and_holds_none(name, wire):
    if wire.prompt == ">>>":
        pytest.skip("its models do not reason")
    thought = "Two hours: " + ("the tag opens it." if wire.prompt else wire.calls([TICK]))
    text = THINKING[wire.thinks].format(thought) + wire.calls([ROWBOAT])
    content, calls, folded = answer(name, wire, text, thinks=wire.thinks)
    assert (content, folded.reasoning.strip(), calls) == ("", thought, [ROWBOAT])


@FORMATS
def test_arguments_of_a_constrained_call_stream_as_they_arrive(name, wire):
    def make():
        thinks = name if name in FRAMED else "none"
        return channels(name, thinks, declared=TOOLS, prompt=wire.prompt, constrained=True)

    text = wire.calls([("rent", {"boat": "rowboat", "note": "a longer text for this"}), TICK])
    folded = fold(make(), list(text))
    assert [(tool, json.loads(arguments)) for tool, arguments in folded.calls] == [
        ("rent", {"boat": "rowboat", "note": "a longer text for this"}),
        TICK,
    ]
    early, made = [], make()
    for char in text[: text.index("longer")]:
        early += made.feed(char)
    assert early[0].name == "rent"


LITERAL = [
    pytest.param("hermes_json", '<tool_call>{"name": "tick"}\n{"name": "tick"}</tool_call>', 2, id="two in a tag"),
    pytest.param("hermes_json", '<tool_call>{"name": "tick"}<tool_call>{"name": "tick"}', 2, id="no closing tags"),
    pytest.param("hermes_json", '<tool_call>[{"name": "tick"}]</tool_call>', 1, id="a list in the tag"),
    pytest.param("hermes_json", "<tool_call><tool_call>{}</tool_call>", 0, id="an empty object"),
    pytest.param("hermes_json", '<tool_call><tool_call>{"name": "tick"}</tool_call>', 1, id="the tag twice"),
    pytest.param("hermes_json", '<tool_call>{"name": "tick"}}</tool_call>', 1, id="a bracket too many"),
    pytest.param("qwen3_coder", "<function=tick>\n</function>\n</tool_call>", 1, id="no outer tag"),
    pytest.param("qwen3_coder", "<tool_call>\n<function=tick></function><function=tick></function></tool_call>", 2,
                 id="two in one outer tag"),
    pytest.param("llama3_json", "<|python_tag|>tick.call()", 1, id="a built-in tool"),
    pytest.param("llama3_json", '<|python_tag|>{"name": "tick", "parameters": {}}', 1, id="the python tag"),
    pytest.param("llama3_json", '{"type": "function", "name": "tick", "arguments": {}}', 1, id="a type first"),
    pytest.param("llama3_json", '{"name": "tick"}\n{"name": "tick"}', 2, id="one a line"),
    pytest.param("llama4_pythonic", "<|python_start|>[tick()]<|python_end|>", 1, id="python tags"),
    pytest.param("llama4_pythonic", '<|python_start|><|python_end|>{"name": "tick"}', 1, id="an object"),
    pytest.param("mistral_args", '[TOOL_CALLS]tick{}', 1, id="no tag before the arguments"),
    pytest.param("mistral_args", '[TOOL_CALLS] [{"name": "tick", "arguments": {}}]', 1, id="the older form"),
    pytest.param("command", 'Action:\n```json\n[{"tool_name": "tick", "parameters": {}}]```', 1, id="command r"),
    pytest.param("phi4_mini", '<|tool_call|>[{"name": "tick"}]<|/tool_call|>', 1, id="phi's other tag"),
    pytest.param("step", "<tool_call>\n<function=tick>\n</function>\n</tool_call>", 1, id="step 3.5"),
    pytest.param("json", '<tool_call>{"name": "tick", "arguments": {}}</tool_call>', 1, id="a tag by habit"),
    pytest.param("kimi_k2", "<|tool_call_begin|>tick:0<|tool_call_argument_begin|>{}<|tool_call_end|>", 1,
                 id="no section"),
    pytest.param("harmony", " to=functions.tick<|channel|>commentary json<|message|>{}<|call|>", 1,
                 id="the recipient first"),
    pytest.param("harmony", "<|channel|>commentary to=functions.tick<|message|><|call|>", 1, id="no arguments"),
    pytest.param("gemma4", "<|tool_call>call:tick{}<tool_call|><|tool_call>call:tick{}<tool_call|>", 2, id="gemma"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "count"), LITERAL)
def test_habits_of_models_are_read_too(name, text, count):
    assert answer(name, WIRES[name], text)[1] == [TICK] * count


VALUES = [
    ("boat", "00731", "00731"),
    ("boat", "null", "null"),
    ("boat", "&amp; \\n", "&amp; \\n"),
    ("hours", "3", 3),
    ("hours", "the top", "the top"),
    ("hours", "03", "03"),
    ("hours", "None", "None"),
    ("insured", "True", True),
    ("insured", "yes", "yes"),
    ("skipper", "null", None),
    ("skipper", "5", "5"),
    ("deposit", "1e3", 1000.0),
    ("deposit", "1e999", float("inf")),
    ("extras", "['a', \"o'b\"]", ["a", "o'b"]),
    ("extras", "[a, b]", "[a, b]"),
    ("extras", '{"a": 1}', '{"a": 1}'),
    ("route", "{'a': True, 'b': None}", {"a": True, "b": None}),
    ("unheard", "7", 7),
    ("unheard", "a word", "a word"),
    ("unheard", '{"a": [1]}', {"a": [1]}),
]


@pytest.mark.parametrize(("key", "text", "value"), VALUES, ids=[f"{key} {text}" for key, text, _ in VALUES])
def test_the_schema_types_bare_text(key, text, value):
    written = f"<tool_call>\n<function=rent>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n</tool_call>"
    _, [(_, arguments)], _ = answer("qwen3_coder", WIRES["qwen3_coder"], written)
    assert arguments == {key: value}


SCHEMAS = [
    ({"$ref": "#/$defs/count"}, "4", 4),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
    ({"enum": ["1", "2"]}, "2", "2"),
    ({"enum": [1, 2]}, "2", 2),
    ({"const": True}, "true", True),
    ({"$ref": "#/$defs/self"}, "x", "x"),
    ({"type": 5}, "x", "x"),
    (True, "1", 1),
]


@pytest.mark.parametrize(("schema", "text", "value"), SCHEMAS, ids=[str(schema) for schema, _, _ in SCHEMAS])
def test_types_are_found_wherever_a_schema_says_them(schema, text, value):
    tool = {"properties": {"k": schema}, "$defs": {"count": {"type": "integer"}, "self": {"$ref": "#/$defs/self"}}}
    made = channels("glm47", declared={"f": tool})
    folded = fold(made, [f"<tool_call>f<arg_key>k</arg_key><arg_value>{text}</arg_value></tool_call>"])
    assert [json.loads(arguments) for _, arguments in folded.calls] == [{"k": value}]


PYTHON = [
    ("'a' 'b'", "ab"),
    ("'''two\nlines'''", "two\nlines"),
    ("'raw\nbreak'", "raw\nbreak"),
    (r"'\x41\u00e9\N{BULLET}\q\101'", "Aé•\\qA"),
    ("[1, (2, 3), {'k': -1.5,}]", [1, [2, 3], {"k": -1.5}]),
    ("true", True),
    ("'\\ud800'", "\ud800"),
]


@pytest.mark.parametrize(("literal", "value"), PYTHON, ids=[literal for literal, _ in PYTHON])
def test_python_literals_are_read(literal, value):
    text = f"<|tool_call_start|>[rent(note={literal})]<|tool_call_end|>"
    assert answer("lfm2_pythonic", WIRES["lfm2_pythonic"], text)[1] == [("rent", {"note": value})]


@pytest.mark.parametrize(
    "literal",
    ["open('x')", "1 + 1", "f'x'", "x", "b'x'", "[" * 101 + "]" * 101, "{1, 2}", "*a", "1_0x", "...", "lambda: 1"],
)
def test_what_is_no_python_literal_makes_no_call(literal):
    text = f"<|tool_call_start|>[rent(note={literal})]<|tool_call_end|>"
    assert answer("lfm2_pythonic", WIRES["lfm2_pythonic"], text)[:2] == (text, [])


def test_markup_that_only_one_format_knows_is_text_for_the_others():
    text = WIRES["glm47"].calls([ROWBOAT])
    assert answer("mistral_args", WIRES["mistral_args"], text)[:2] == (text, [])
