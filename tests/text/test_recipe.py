"""What a model without a format of its own is told, and that what it is shown reads back as calls."""

import json

import pytest

from appliance.text import dialects
from appliance.text.recipe import in_words
from appliance.vocab.request import Message, Tool, ToolCall
from appliance.vocab.spec import ChatPrompt
from tests.text.folding import channels, fold

RENT = Tool(name="rent", description="Rent a boat", parameters={"properties": {"boat": {"type": "string"}}})
CALL = ToolCall(id="c1", name="rent", arguments='{"boat": "kayak"}')
TALK = (
    Message(role="user", content="A kayak, please."),
    Message(role="assistant", content="At once.", tool_calls=(CALL,)),
    Message(role="tool", content="booked", tool_call_id="c1"),
    Message(role="tool", content="paid", tool_call_id="c2"),
    Message(role="user", content="Thanks."),
)


def worded(*messages: Message) -> ChatPrompt:
    return in_words(ChatPrompt(messages=messages, tools=(RENT,), recipe=True))


def test_tools_are_told_in_the_system_text():
    prompt = worded(Message(role="system", content="Be brief."), *TALK)
    assert (prompt.tools, prompt.recipe) == ((), False)
    assert prompt.messages[0].content.startswith("Be brief.\n\n")
    assert all(word in prompt.messages[0].content for word in ('"rent"', "Rent a boat", '"boat"'))
    assert worded(*TALK).messages[0].role == "system"


def test_results_and_what_follows_are_one_turn_of_the_user():
    assert [(m.role, m.content) for m in worded(*TALK).messages[1:]] == [
        ("user", "A kayak, please."),
        ("assistant", 'At once.\n\n{"name": "rent", "arguments": {"boat": "kayak"}}'),
        ("user", "Result of the call: booked\n\nResult of the call: paid\n\nThanks."),
    ]


def test_a_call_as_it_is_shown_reads_back():
    shown = worded(*TALK).messages[2].content
    folded = fold(channels("json", declared={"rent": RENT.parameters}), [shown])
    assert folded.content == "At once."
    assert [(name, json.loads(text)) for name, text in folded.calls] == [("rent", {"boat": "kayak"})]


@pytest.mark.parametrize("row", [row for row in dialects.DIALECTS if row.write], ids=lambda row: row.name)
def test_what_a_format_writes_it_reads(row: dialects.ToolFormat) -> None:
    assert row.write is not None
    text = row.write([("f", {"a": "b"}), ("f", {"a": "c"})])
    folded = fold(channels(row.name, declared={"f": {}}), [text])
    assert ([name for name, _ in folded.calls], folded.content) == (["f", "f"], "")
