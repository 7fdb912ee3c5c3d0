"""A budget of reasoning: never a token more before the end is forced, whatever the dialect."""

from collections.abc import Iterator

import pytest

from appliance.engine.budget import Budget, Watch
from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.engine.revealed import reveal
from appliance.text import reasoning
from appliance.text.channels import Channels
from appliance.text.reasoning.format import Reasoning

THINK = reasoning.find("think_tags")
assert THINK is not None


def watching(thinking: Reasoning, tokens: int, prompt: str) -> tuple[FakeTokenizer, Watch]:
    tokenizer = FakeTokenizer(4)
    closing = thinking.thought_end or thinking.close[0]
    budget = Budget(
        tokens,
        tokenizer.encode(closing),
        lambda: Channels(reasoning=thinking, new_id=str, prompt=prompt),
        reveal(tokenizer, thinking.markers),
    )
    return tokenizer, budget.watch()


def said(watch: Watch, wanted: Iterator[int]) -> Iterator[int]:
    """What is said by a model that wants these tokens; what is forced goes before."""
    for token in wanted:
        while (only := watch.only) is not None:
            watch.accept(only)
            yield only
        watch.accept(token)
        yield token


FORMATS = [row for row in reasoning.DIALECTS if row.open or row.thoughts]


@pytest.mark.parametrize("tokens", [0, 1, 7])
@pytest.mark.parametrize("thinking", FORMATS, ids=lambda row: row.name)
def test_reasoning_ends_when_its_budget_is_spent(thinking: Reasoning, tokens: int) -> None:
    begin = thinking.thoughts[0] if thinking.thoughts else thinking.open[0]
    end = thinking.thought_end or thinking.close[0]
    tokenizer, watch = watching(thinking, tokens, "" if thinking.thoughts else begin)
    ahead = tokenizer.encode(begin) if thinking.thoughts else []
    wanted = iter([*ahead, *tokenizer.encode("x " * 40)])
    text = tokenizer.text(list(said(watch, wanted))).removeprefix(begin if ahead else "")
    thought, found, answer = text.partition(end)
    assert found
    assert len(tokenizer.encode(thought)) <= tokens
    assert answer.count("x") == 40 - thought.count("x")


@pytest.mark.parametrize("prompt", ["", "<think>"], ids=["none was opened", "the prompt opened it"])
def test_what_ends_in_time_is_left_alone(prompt: str) -> None:
    text = ("" if prompt else "<think>") + "a b c</think>the answer goes on for long"
    tokenizer, watch = watching(THINK, 20, prompt)
    wanted = tokenizer.encode(text)
    assert list(said(watch, iter(wanted))) == wanted


def test_an_answer_without_reasoning_is_free() -> None:
    tokenizer, watch = watching(THINK, 0, "")
    wanted = tokenizer.encode("no thoughts at all " * 9)
    assert list(said(watch, iter(wanted))) == wanted


def test_a_character_is_not_cut() -> None:
    tokenizer, watch = watching(THINK, 2, "<think>")
    wanted = [int.from_bytes(bytes([1, byte]), "big") for byte in "a😀bcdefg".encode()]
    text = tokenizer.text(list(said(watch, iter(wanted))))
    assert text.startswith("a😀</think>")


def test_what_was_said_before_counts() -> None:
    tokenizer, watch = watching(THINK, 3, "<think>")
    for token in tokenizer.encode("a b c</th"):
        watch.accept(token)
    assert watch.only is not None
