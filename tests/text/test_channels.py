"""What the text of an answer is folded to; every row again with the text split at every character."""

import itertools

import pytest

from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.vocab.event import ReasoningDelta, TextDelta, ToolCallDelta

THINK = {"reasoning": reasoning.find("think_tags")}
TOOLS = {"tools": dialects.find("hermes_json"), "declared": {"f": {}, "g": {}}}
CALL_F = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def fold(pieces, **options):
    """(answer, reasoning, [(index, id, name, arguments)], stop string)"""
    numbers = itertools.count()
    channels = Channels(new_id=lambda: f"id{next(numbers)}", **options)
    deltas = [delta for piece in pieces for delta in channels.feed(piece)] + channels.close()
    return (
        "".join(d.text for d in deltas if isinstance(d, TextDelta)),
        "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)),
        [(d.index, d.id, d.name, d.arguments) for d in deltas if isinstance(d, ToolCallDelta)],
        channels.stopped,
    )


F = [(0, "id0", "f", '{"a": 1}')]
CASES = [
    pytest.param({}, "  plain text\n", ("  plain text\n", "", [], None), id="plain text is kept as it is"),
    # stop strings
    pytest.param({"stops": ["END"]}, "a END b END", ("a ", "", [], "END"), id="the first stop string ends it"),
    pytest.param({"stops": ["b", "abc"]}, "xabc", ("x", "", [], "abc"), id="the leftmost stop string wins"),
    pytest.param({"stops": ["b", "abc"]}, "xab", ("xa", "", [], "b"), id="the end of the text decides"),
    pytest.param({"stops": ["END"]}, "a EN", ("a EN", "", [], None), id="a cut stop string is text"),
    pytest.param({"stops": ["\n\n"]}, "a\n\nb", ("a", "", [], "\n\n"), id="white space may be a stop string"),
    # reasoning
    pytest.param(THINK, "<think>\nwhy\n</think>\n\nyes", ("yes", "why", [], None), id="reasoning, then answer"),
    pytest.param(THINK, " \n<think>why</think>yes", ("yes", "why", [], None), id="white space before the tag"),
    pytest.param(THINK, "<think></think>yes", ("yes", "", [], None), id="empty reasoning"),
    pytest.param(THINK, "<think>why", ("", "why", [], None), id="reasoning without an end"),
    pytest.param(THINK, "<think>a </thin b", ("", "a </thin b", [], None), id="a cut closing tag is reasoning"),
    pytest.param(THINK, "<thin", ("<thin", "", [], None), id="a cut opening tag is text"),
    pytest.param(THINK, " yes", (" yes", "", [], None), id="no reasoning at all"),
    pytest.param(THINK, "tag <think> x", ("tag <think> x", "", [], None), id="only the beginning may open it"),
    pytest.param(THINK, "<think>a</think>b</think>", ("b</think>", "a", [], None), id="a stray closing tag is text"),
    pytest.param({**THINK, "inside": True}, "why</think>yes", ("yes", "why", [], None), id="opened by the prompt"),
    pytest.param({**THINK, "inside": True}, "<think>a</think>b", ("b", "a", [], None), id="the opening tag repeated"),
    pytest.param(
        {**THINK, "stops": ["a"]}, "<think>a</think>\nba", ("b", "a", [], "a"), id="stop strings are for the answer"
    ),
    pytest.param(
        {**THINK, "stops": ["\n"]}, "<think>a</think>\n\nb", ("b", "a", [], None), id="space after it is no answer"
    ),
    # tool calls
    pytest.param(TOOLS, CALL_F, ("", "", F, None), id="a call"),
    pytest.param(TOOLS, f"I call.\n{CALL_F}\n", ("I call.", "", F, None), id="text before a call"),
    pytest.param(TOOLS, CALL_F.removesuffix("</tool_call>"), ("", "", F, None), id="the closing tag may be missing"),
    pytest.param(
        TOOLS,
        f'{CALL_F}\n<tool_call>{{"name": "g"}}</tool_call>',
        ("", "", [*F, (1, "id1", "g", "{}")], None),
        id="two calls",
    ),
    pytest.param(TOOLS, f"{CALL_F}\n\ndone", ("done", "", F, None), id="text after a call"),
    pytest.param(
        TOOLS,
        ' <tool_call>{"name": "h"}</tool_call>',
        (' <tool_call>{"name": "h"}</tool_call>', "", [], None),
        id="a call of a tool that is not declared is text",
    ),
    pytest.param(
        TOOLS, "<tool_call>{oops</tool_call>!", ("<tool_call>{oops</tool_call>!", "", [], None), id="no JSON is text"
    ),
    pytest.param(TOOLS, '<tool_call>{"name"', ('<tool_call>{"name"', "", [], None), id="a cut call is text"),
    pytest.param(
        {**TOOLS, "stops": ["a"]}, f"b{CALL_F}a", ("b", "", F, "a"), id="stop strings do not count inside a call"
    ),
    pytest.param(TOOLS, "a" + " " * 30 + CALL_F, ("a" + " " * 22, "", F, None), id="only so much space is held"),
    pytest.param({**THINK, **TOOLS}, f"<think>a</think>\n{CALL_F}", ("", "a", F, None), id="reasoning, then a call"),
    pytest.param({**THINK, **TOOLS}, f"\n{CALL_F}", ("", "", F, None), id="a call without the reasoning"),
]


@pytest.mark.parametrize(("options", "text", "expected"), CASES)
def test_folds_to_the_same_however_the_text_is_split(options, text, expected):
    assert fold([text], **options) == expected
    assert fold(list(text), **options) == expected
    for at in range(1, len(text)):
        assert fold([text[:at], text[at:]], **options) == expected, at


@pytest.mark.parametrize(("options", "text", "expected"), CASES)
def test_pieces_name_the_text_they_stand_for(options, text, expected):
    channels = Channels(new_id=lambda: "id", **options)
    pieces = [p for char in text for p in channels.pieces(char)] + channels.closing_pieces()
    end = 0
    for start, stop, delta in pieces:
        assert end <= start
        end = stop
        if not isinstance(delta, ToolCallDelta):
            assert text[start:stop] == delta.text
    assert channels.resolved <= len(text)


def test_text_is_given_out_as_soon_as_no_stop_string_can_claim_it():
    channels = Channels(stops=["</end>"], new_id=str)
    assert channels.feed("hello <") == [TextDelta("hello ")]
    assert channels.feed("/en") == []
    assert channels.feed("t> x") == [TextDelta("</ent> x")]


def test_a_stop_string_that_does_not_count_yet_is_text():
    channels = Channels(stops=["END"], new_id=str)
    assert channels.feed("a END", stops=False) == [TextDelta("a "), TextDelta("END")]
    assert channels.feed(" END") == [TextDelta(" ")]
    assert channels.stopped == "END"


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        pytest.param('{"name": "f", "arguments": {"a": "é"}}', '{"a": "é"}', id="as the format says"),
        pytest.param('{"name": "f", "parameters": {"a": 1}}', '{"a": 1}', id="parameters instead of arguments"),
        pytest.param('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}', id="arguments as JSON text"),
        pytest.param(
            '{"name": "f", "arguments": {"a": "x\ny"}}', '{"a": "x\\ny"}', id="a raw line break in a string"
        ),
        pytest.param('{"name": "f"}', "{}", id="no arguments"),
        pytest.param('{"name": "f", "arguments": [1]}', None, id="a list of arguments"),
        pytest.param('{"name": "f", "arguments": {"a": NaN}}', None, id="NaN is not JSON"),
        pytest.param('{"name": 1, "arguments": {}}', None, id="a name that is no text"),
        pytest.param("[" * 100_000, None, id="nested too deep"),
        pytest.param('{"function": {"name": "f", "arguments": {"a": 1}}}', '{"a": 1}', id="under the key function"),
        pytest.param('{"arguments": {"a": 1}, "name": "f"}', '{"a": 1}', id="arguments before the name"),
        pytest.param('{"name": "f", "arguments": null}', "{}", id="null for no arguments"),
        pytest.param('[{"name": "f"}]', "{}", id="a list of calls"),
        pytest.param('{"name": "f", "arguments": "{\\"a\\": 1e999}"}', None, id="a number that is too big"),
        pytest.param(
            '{"name": "f", "arguments": {"a": "\\ud800"}}',
            '{"a": "\\ud800"}',
            id="half a surrogate pair stays escaped",
        ),
    ],
)
def test_hermes_calls_are_read(body, arguments):
    text, _, calls, _ = fold([f"<tool_call>{body}</tool_call>"], **TOOLS)
    assert [call[3] for call in calls] == ([] if arguments is None else [arguments])
    assert text == (f"<tool_call>{body}</tool_call>" if arguments is None else "")


@pytest.mark.parametrize("table", [dialects, reasoning], ids=["tools", "reasoning"])
def test_every_dialect_has_names_of_its_own(table):
    names = [name for row in table.DIALECTS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    assert all(table.find(name) is not None for name in names)
    assert table.find("no such dialect") is None
