"""Where conversations part, and what is kept warm: on a scripted engine whose prompts are plain text."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appliance.engine.borders import borders, opening
from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.errors import TemplateFailed
from appliance.vocab.event import Started
from appliance.vocab.request import Message, Tool
from appliance.vocab.spec import ChatPrompt
from appliance.wire import frames
from tests.engine.harness import SETTINGS, Engine, running_engine, submission, write_script

SYSTEM = Message(role="system", content="You are an agent with a long list of rules to follow. " * 2)


def chat(*turns: Message) -> ChatPrompt:
    return ChatPrompt(messages=turns)


def user(text: str, *, mark: bool = False) -> Message:
    return Message(role="user", content=text, mark=mark)


def said(text: str) -> Message:
    return Message(role="assistant", content=text)


TOKENIZER = FakeTokenizer(1, None, ())


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        pytest.param(chat(user("hello")), [], id="nothing before the question"),
        pytest.param(chat(SYSTEM, user("hello")), [chat(SYSTEM)], id="after the system prompt"),
        pytest.param(
            chat(SYSTEM, user("one", mark=True), said("yes"), user("two")),
            [chat(SYSTEM), chat(SYSTEM, user("one"))],
            id="and after a marked turn",
        ),
        pytest.param(
            chat(user("one", mark=True), said("yes"), user("two", mark=True)),
            [chat(user("one")), chat(user("one"), said("yes"), user("two"))],
            id="and after the last",
        ),
    ],
)
def test_a_border_is_where_another_turn_would_begin_to_differ(prompt: ChatPrompt, parts: list[ChatPrompt]) -> None:
    tokens = TOKENIZER.render(prompt)
    found = borders(prompt, tokens, TOKENIZER.render)
    assert len(found) == len(parts)
    for length, part in zip(found, parts, strict=True):
        others = [TOKENIZER.render(chat(*part.messages, turn)) for turn in (user("x"), said("y"))]
        assert any(other[:length] == tokens[:length] for other in others)
        assert length >= sum(len(message.content or "") for message in part.messages)


RULES = "You are an agent with a long list of rules to follow. "
TOOLS = tuple(Tool(name=name, description="does what has to be done with it") for name in ("one", "two", "three"))


def marked(*places: int) -> tuple[Tool, ...]:
    return tuple(msgspec.structs.replace(tool, mark=place in places) for place, tool in enumerate(TOOLS))


@pytest.mark.parametrize(
    ("prompt", "like", "least"),
    [
        pytest.param(
            chat(Message(role="system", content=f"{RULES}\nToday is Monday.", parts=(len(RULES),)), user("hello")),
            chat(Message(role="system", content=f"{RULES}\nToday is Sunday, all day."), user("good day")),
            len(RULES),
            id="a block of the system prompt",
        ),
        pytest.param(
            msgspec.structs.replace(chat(user("hello")), tools=marked(0)),
            msgspec.structs.replace(chat(user("hello")), tools=(TOOLS[0], TOOLS[2])),
            len("one does what has to be done with it"),
            id="a tool",
        ),
        pytest.param(
            msgspec.structs.replace(chat(user("hello")), tools=marked(2)),
            msgspec.structs.replace(chat(user("good day")), tools=(*TOOLS, Tool(name="four"))),
            3 * len("one does what has to be done with it"),
            id="the last tool",
        ),
        pytest.param(
            chat(user("a long document, read often", mark=True)),
            chat(user("a long document, read often"), user("and a question")),
            len("a long document, read often"),
            id="the last message",
        ),
    ],
)
def test_a_mark_is_a_border_that_conversations_which_part_there_have_in_common(
    prompt: ChatPrompt, like: ChatPrompt, least: int
) -> None:
    tokens, other = TOKENIZER.render(prompt), TOKENIZER.render(like)
    assert any(
        length >= least and other[:length] == tokens[:length] for length in borders(prompt, tokens, TOKENIZER.render)
    )


def test_no_more_marks_than_a_few_cost_a_rendering() -> None:
    seen: list[ChatPrompt] = []

    def render(asked: ChatPrompt) -> list[int]:
        seen.append(asked)
        return TOKENIZER.render(asked)

    prompt = chat(*(turn for n in range(50) for turn in (user(f"{n}", mark=True), said("yes"))), user("two"))
    found = borders(prompt, TOKENIZER.render(prompt), render)
    assert len(found) == len(seen) == 8
    assert found[-1] > len(TOKENIZER.render(chat(*prompt.messages[:-3])))


def test_what_a_template_refuses_to_stand_alone_has_no_border() -> None:
    prompt = chat(SYSTEM, user("hello"))

    def render(asked: ChatPrompt) -> list[int]:
        if asked.messages != prompt.messages:
            raise TemplateFailed("no such turns")
        return TOKENIZER.render(asked)

    assert borders(prompt, TOKENIZER.render(prompt), render) == ()


def test_an_opening_is_what_all_conversations_behind_it_share_and_one_token() -> None:
    known = opening(chat(SYSTEM), TOKENIZER.render)
    for text in ("first", "second"):
        assert TOKENIZER.render(chat(SYSTEM, user(text)))[: len(known) - 1] == known[:-1]
    assert len(known) > len(SYSTEM.content or "")


# ---- in an engine
def start(engine: Engine, folder: Path, *, trim: bool, **settings: Any) -> None:
    script = write_script(folder, token_bytes=1, trim=trim)
    engine.start(script, msgspec.structs.replace(SETTINGS, **settings))


def wait_until_warm(engine: Engine) -> None:
    nonces = itertools.count(1000)
    while not engine.pong(next(nonces)).gauges.prefix_bytes:
        pass


def cached(engine: Engine, id: int, prompt: ChatPrompt, namespace: str = "") -> int:
    engine.send(frames.Submit(submission(id, prompt=prompt, namespace=namespace)))
    engine.end(id)
    return next(event.cached_tokens for event in engine.events(id) if isinstance(event, Started))


@pytest.mark.parametrize("trim", [True, False], ids=["trimmable", "exact lengths only"])
def test_another_question_behind_the_same_system_prompt_finds_it(tmp_path: Path, trim: bool) -> None:
    with running_engine() as engine:
        start(engine, tmp_path, trim=trim)
        assert cached(engine, 1, chat(SYSTEM, user("one"))) == 0
        assert cached(engine, 2, chat(SYSTEM, user("two"))) >= len(SYSTEM.content or "")


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not marked"])
def test_a_mark_is_where_exact_lengths_can_be_taken_up_again(tmp_path: Path, marked: bool) -> None:
    history = (user("a long document, read once and asked about often", mark=marked), said("read"))
    with running_engine() as engine:
        start(engine, tmp_path, trim=False)
        cached(engine, 1, chat(*history, user("one")))
        found = cached(engine, 2, chat(*history, user("two")))
    assert (found >= len(history[0].content or "")) == marked


MARKS = {
    "a block of the system prompt": lambda turn, marked: chat(
        Message(role="system", content=f"{RULES}\n{turn}", parts=(len(RULES),) if marked else ()), user("hello")
    ),
    "a tool": lambda turn, on: msgspec.structs.replace(
        chat(user("hello")), tools=(*(marked(1) if on else TOOLS)[:2], Tool(name=turn))
    ),
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not marked"])
def test_what_stands_before_a_mark_within_the_prompts_head_is_taken_up_again(
    tmp_path: Path, kind: str, marked: bool
) -> None:
    with running_engine() as engine:
        start(engine, tmp_path, trim=False)
        cached(engine, 1, MARKS[kind]("monday", marked))
        found = cached(engine, 2, MARKS[kind]("sunday", marked))
    assert (found >= len(RULES)) == marked


@pytest.mark.parametrize("trim", [True, False], ids=["trimmable", "exact lengths only"])
def test_a_warm_prefix_is_found_by_everybody_and_survives_what_others_put_in(tmp_path: Path, trim: bool) -> None:
    with running_engine() as engine:
        start(engine, tmp_path, trim=trim, warm=(chat(SYSTEM),), prefix_bytes=400 * 1024)
        wait_until_warm(engine)
        for id in range(1, 8):
            cached(engine, id, chat(user(f"{id} another text that fills the little room there is " * 4)))
        found = [cached(engine, 10 + n, chat(SYSTEM, user("hi")), name) for n, name in enumerate(("a:", "b:"))]
    assert min(found) >= len(SYSTEM.content or "")


def test_what_is_not_to_be_warm_any_more_is_let_go(tmp_path: Path) -> None:
    with running_engine() as engine:
        start(engine, tmp_path, trim=True, warm=(chat(SYSTEM),))
        wait_until_warm(engine)
        engine.send(frames.Configure(SETTINGS))
        assert cached(engine, 1, chat(SYSTEM, user("hi")), "a:") == 0


def test_the_first_request_waits_for_the_warm_prefix_it_shares(tmp_path: Path) -> None:
    with running_engine() as engine:
        start(engine, tmp_path, trim=True, warm=(chat(SYSTEM),))
        assert cached(engine, 1, chat(SYSTEM, user("hi")), "a:") >= len(SYSTEM.content or "")
