"""What each protocol says of a prompt that was cached is what was not computed again."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.up import Up

TEXT = "a question that is asked twice in the words of {}"
Usage = Callable[[dict[str, Any]], tuple[int, int]]


def openai(usage: dict[str, Any]) -> tuple[int, int]:
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def responses(usage: dict[str, Any]) -> tuple[int, int]:
    return usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]


def anthropic(usage: dict[str, Any]) -> tuple[int, int]:
    cached = usage["cache_read_input_tokens"]
    return cached, usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]


def turn(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


PROTOCOLS: dict[str, tuple[str, Callable[[str], dict[str, Any]], Usage]] = {
    "chat": ("/v1/chat/completions", lambda text: {"messages": turn(text)}, openai),
    "completions": ("/v1/completions", lambda text: {"prompt": text}, openai),
    "responses": ("/v1/responses", lambda text: {"input": text}, responses),
    "messages": ("/v1/messages", lambda text: {"messages": turn(text), "max_tokens": 20}, anthropic),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_exact_repeat_computes_the_last_token_alone_and_says_so(up: Up, name: str) -> None:
    path, body, read = PROTOCOLS[name]
    asked = {"model": "demo", **body(TEXT.format(name))}
    _, again = (up.post(asked, path=path) for _ in range(2))
    cached, prompt = read(again.json()["usage"])
    assert cached == prompt - 1
    said = re.fullmatch(r"hit=(\d+)/(\d+) reason=whole", again.headers["x-appliance-cache"])
    assert said is not None
    assert (int(said[1]), int(said[2])) == (cached, prompt)


def test_a_salt_keeps_prompts_apart(up: Up) -> None:
    def ask(salt: str) -> tuple[int, int]:
        body = {"model": "demo", "messages": turn("a secret of one tenant"), "cache_salt": salt}
        return openai(up.post(body).json()["usage"])

    assert ask("one")[0] == ask("two")[0] == 0
    cached, prompt = ask("one")
    assert cached == prompt - 1
