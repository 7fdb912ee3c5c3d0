"""Special tokens show their text where a dialect mentions it, and nowhere else."""

import json
from pathlib import Path

import msgspec
import pytest

from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.engine.revealed import reveal
from appliance.text import dialects, reasoning
from appliance.vocab.event import ReasoningDelta, TextDelta, ToolCallDelta
from appliance.vocab.request import Message, Tool
from appliance.vocab.spec import ChatPrompt
from appliance.wire import frames
from tests.engine.harness import GREEDY, running_engine, submission, write_script

SPECIAL = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "<|aside|>", "｜DSML｜")
ASK = ChatPrompt(messages=(Message(role="user", content="x"),), tools=(Tool(name="f"),))


@pytest.fixture
def engine():
    with running_engine() as started:
        yield started


def shown(markers, text: str) -> str:
    tokenizer = FakeTokenizer(4, special=SPECIAL)
    view = reveal(tokenizer, markers)
    return b"".join(map(view.raw, tokenizer.encode(text))).decode()


@pytest.mark.parametrize(
    ("markers", "text", "expected"),
    [
        pytest.param((), "a[TOOL_CALLS]b", "ab", id="none is shown unasked"),
        pytest.param(("[TOOL_CALLS]",), "a[TOOL_CALLS]b[ARGS]", "a[TOOL_CALLS]b", id="only those that are mentioned"),
        pytest.param(("<｜DSML｜invoke",), "<｜DSML｜invoke", "<｜DSML｜invoke", id="a part of a tag"),
        pytest.param(
            dialects.find("mistral").tags, "[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]f[ARGS]{}", id="a dialect's"
        ),
        pytest.param(
            reasoning.find("mistral").markers, "[THINK]a[/THINK]<|aside|>", "[THINK]a[/THINK]", id="reasoning"
        ),
    ],
)
def test_tags_of_the_dialects_are_shown(markers, text, expected):
    assert shown(markers, text) == expected


def test_nothing_is_wrapped_where_no_tag_is_special():
    tokenizer = FakeTokenizer(4, special=SPECIAL)
    assert reveal(tokenizer, ("<tool_call>",)) is tokenizer


def test_an_engine_reads_calls_and_reasoning_out_of_special_tokens(engine, tmp_path: Path):
    text = "[THINK]hm <|aside|>[/THINK]Well<|aside|>.[TOOL_CALLS]f[ARGS]{}"
    engine.start(write_script(tmp_path, text=text, special=list(SPECIAL)))
    engine.send(frames.Submit(submission(1, prompt=ASK, tool_dialect="mistral", reasoning_dialect="mistral_think")))
    finished = engine.end(1)
    events = engine.events(1)
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "hm"
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Well."
    assert [(e.name, e.arguments) for e in events if isinstance(e, ToolCallDelta)] == [("f", "{}")]
    assert (finished.reason, finished.warnings) == ("tool_calls", ())


def test_without_tools_the_tags_of_calls_are_not_shown(engine, tmp_path: Path):
    engine.start(write_script(tmp_path, text="[TOOL_CALLS]f[ARGS]{}", special=list(SPECIAL)))
    prompt = ChatPrompt(messages=ASK.messages)
    engine.send(frames.Submit(submission(1, prompt=prompt, tool_dialect="mistral")))
    engine.end(1)
    assert engine.text(1) == "f{}"


def test_what_became_text_is_told_at_the_end(engine, tmp_path: Path):
    engine.start(write_script(tmp_path, text='<tool_call>{"name": "g"}</tool_call>'))
    engine.send(frames.Submit(submission(1, prompt=ASK, tool_dialect="hermes")))
    finished = engine.end(1)
    assert engine.text(1) == '<tool_call>{"name": "g"}</tool_call>'
    assert (finished.reason, finished.warnings) == ("stop", (("undeclared tool 'g'", 1),))


def test_a_call_that_the_limit_cuts_is_given_out_as_far_as_it_came(engine, tmp_path: Path):
    engine.start(write_script(tmp_path, text='<tool_call>{"name": "f", "arguments": {"a": "much more"}}</tool_call>'))
    limited = msgspec.structs.replace(GREEDY, max_tokens=10)
    engine.send(frames.Submit(submission(1, prompt=ASK, tool_dialect="hermes", sampling=limited)))
    finished = engine.end(1)
    (call,) = [e for e in engine.events(1) if isinstance(e, ToolCallDelta)]
    assert (call.name, finished.reason, engine.text(1)) == ("f", "length", "")
    with pytest.raises(ValueError):
        json.loads(call.arguments)


@pytest.mark.parametrize(
    ("last", "text", "expected"),
    [
        pytest.param("<think>so far", " and on</think>yes", "yes", id="inside the reasoning"),
        pytest.param("<think>so</think>far", " so good", " so good", id="behind it"),
    ],
)
def test_an_answer_that_continues_a_message_begins_where_it_ends(engine, tmp_path: Path, last, text, expected):
    engine.start(write_script(tmp_path, text=text))
    messages = (Message(role="user", content="x"), Message(role="assistant", content=last))
    prompt = ChatPrompt(messages=messages, continue_final=True)
    engine.send(frames.Submit(submission(1, prompt=prompt, reasoning_dialect="think_tags")))
    engine.end(1)
    assert engine.text(1) == expected
