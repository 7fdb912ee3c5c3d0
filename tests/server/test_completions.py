"""Text completions through the official client, against the real process."""

from typing import Any

import openai
import pytest

from appliance.engine.fake.tokenizer import FakeTokenizer
from tests.server.up import Up


def ids(text: str) -> list[int]:
    return FakeTokenizer(4).encode(text)


PROMPTS: dict[str, tuple[Any, list[str]]] = {
    "a string": ("hi", ["You said: hi"]),
    "strings": (["a", "b"], ["You said: a", "You said: b"]),
    "token ids": (ids("one two"), ["You said: one two"]),
    "lists of ids": ([ids("a"), ids("b")], ["You said: a", "You said: b"]),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("prompt", "texts"), PROMPTS.values(), ids=PROMPTS.keys())
def test_every_form_of_a_prompt_is_answered(up: Up, prompt: Any, texts: list[str], stream: bool) -> None:
    client = up.client()
    if not stream:
        choices = client.completions.create(model="demo", prompt=prompt).choices
        assert [(choice.index, choice.text, choice.finish_reason) for choice in choices] == [
            (at, text, "stop") for at, text in enumerate(texts)
        ]
        return
    parts = [""] * len(texts)
    for chunk in client.completions.create(model="demo", prompt=prompt, stream=True):
        parts[chunk.choices[0].index] += chunk.choices[0].text
    assert parts == texts


@pytest.mark.parametrize("prompt", ["one two", ids("one two")], ids=["text", "token ids"])
def test_an_echo_is_the_prompt_before_the_answer(up: Up, prompt: Any) -> None:
    answer = up.client().completions.create(model="demo", prompt=prompt, echo=True, max_tokens=0)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("one two", "length")
    answer = up.client().completions.create(model="demo", prompt=prompt, echo=True)
    assert answer.choices[0].text == "one twoYou said: one two"


def test_without_a_limit_sixteen_tokens_come(up: Up) -> None:
    answer = up.client().completions.create(model="endless", prompt="go")
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (16, "length")


def test_several_answers_per_prompt_are_numbered_through(up: Up) -> None:
    answer = up.client().completions.create(model="demo", prompt=["a", "b"], n=2)
    assert [(c.index, c.text[-1]) for c in answer.choices] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]


def test_the_best_of_several_is_given(up: Up) -> None:
    answer = up.client().completions.create(model="demo", prompt="a", best_of=3)
    assert [choice.text for choice in answer.choices] == ["You said: a"]


def test_log_probabilities_have_equal_lengths(up: Up) -> None:
    logprobs = up.client().completions.create(model="demo", prompt="a", logprobs=2).choices[0].logprobs
    assert logprobs is not None
    columns = (logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset)
    assert {len(column or ()) for column in columns} == {len(logprobs.tokens or ())} != {0}


def test_a_raw_prompt_sees_no_template(up: Up) -> None:
    raw = up.client().completions.create(model="demo", prompt="hi").usage
    chat = up.client().chat.completions.create(model="demo", messages=[{"role": "user", "content": "hi"}]).usage
    assert raw is not None
    assert chat is not None
    assert raw.prompt_tokens == len(ids("hi")) < chat.prompt_tokens


def test_a_prompt_that_is_too_long_is_a_status(up: Up) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        up.client().completions.create(model="fussy", prompt="word " * 200)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")


SCORED = {"the prompt alone": 0, "with an answer": 5}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("most", SCORED.values(), ids=SCORED.keys())
def test_an_echo_with_logprobs_scores_the_prompt(up: Up, stream: bool, most: int) -> None:
    body: dict[str, Any] = {"model": "demo", "prompt": "one two é", "echo": True, "logprobs": 2, "max_tokens": most}
    if stream:
        pieces = [chunk.choices[0] for chunk in up.client().completions.create(**body, stream=True)]
    else:
        pieces = up.client().completions.create(**body).choices
    text = "".join(piece.text for piece in pieces)
    columns = [piece.logprobs for piece in pieces if piece.logprobs is not None]
    scores = [score for column in columns for score in column.token_logprobs or ()]
    top = [each for column in columns for each in column.top_logprobs or ()]
    tokens = [token for column in columns for token in column.tokens or ()]
    offsets = [offset for column in columns for offset in column.text_offset or ()]
    assert text.startswith("one two é")
    assert (text == "one two é") == (most == 0)
    assert scores[0] is None is top[0]
    assert all(
        score is not None and len(likeliest) >= 2 for score, likeliest in zip(scores[1:], top[1:], strict=True)
    )
    assert len(tokens) == len(scores) == len(offsets)
    assert all(text[at:].startswith(token) for token, at in zip(tokens, offsets, strict=True) if "�" not in token)
    assert pieces[-1].finish_reason == "length"


def test_an_echo_that_only_scores_generates_nothing_that_is_counted(up: Up) -> None:
    body: dict[str, Any] = {"model": "demo", "prompt": ["a b", "c"], "echo": True, "logprobs": 1, "max_tokens": 0}
    answer = up.client().completions.create(**body)
    assert [choice.text for choice in answer.choices] == ["a b", "c"]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0


@pytest.mark.parametrize("most", [0, 2], ids=["no candidates", "two"])
def test_a_prompts_scores_are_told_beside_the_answer_under_vllms_name(up: Up, most: int) -> None:
    body = {"model": "demo", "prompt": ["one two", "é"], "max_tokens": 2, "prompt_logprobs": most}
    answer = up.post(body, "/v1/completions").json()
    echoed = up.post({**body, "echo": True, "logprobs": most}, "/v1/completions").json()
    for choice, prompt, both in zip(answer["choices"], body["prompt"], echoed["choices"], strict=True):
        first, *others = choice["prompt_logprobs"]
        assert (first, both["prompt_logprobs"]) == (None, choice["prompt_logprobs"])
        assert [next(iter(each)) for each in others] == [str(token) for token in ids(prompt)[1:]]
        assert [next(iter(each.values()))["logprob"] for each in others] == both["logprobs"]["token_logprobs"][
            1 : len(ids(prompt))
        ]
        assert all(most <= len(each) <= most + 1 for each in others)
        assert (choice["logprobs"], both["text"]) == (None, prompt + choice["text"])


def test_a_chats_prompt_is_scored_too(up: Up) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}], "prompt_logprobs": 1, "n": 2}
    answer = up.post(body).json()
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert answer["choices"][0]["message"]["content"] == "You said: hi"
    refused = up.post({**body, "stream": True})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt_logprobs")


def test_a_prompt_that_is_only_scored_has_no_answer(up: Up) -> None:
    body = {"model": "demo", "prompt": "one two", "max_tokens": 0, "prompt_logprobs": 1}
    answer = up.post(body, "/v1/completions").json()
    assert (answer["choices"][0]["text"], answer["usage"]["completion_tokens"]) == ("", 0)
    assert len(answer["choices"][0]["prompt_logprobs"]) == len(ids("one two"))
