"""Tokenizing, its way back, and a prompt as the model sees it."""

from typing import Any

import pytest

from tests.server.up import Up, chat


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_text_comes_back_from_its_tokens(up: Up, prefix: str) -> None:
    asked = up.post({"model": "demo", "prompt": "one two é"}, f"{prefix}/tokenize").json()
    assert asked["count"] == len(asked["tokens"]) > 0
    assert asked["max_model_len"] == 4096
    back = up.post({"model": "demo", "tokens": asked["tokens"]}, f"{prefix}/detokenize").json()
    assert back == {"prompt": "one two é"}


def test_messages_are_counted_as_the_request_uses_them(up: Up) -> None:
    body = chat("demo", "how many?")
    counted = up.post(body, "/tokenize").json()["count"]
    assert counted == up.post(body).json()["usage"]["prompt_tokens"]


def test_a_prompt_is_rendered_as_the_model_sees_it(up: Up) -> None:
    body = chat("demo", "hi", chat_template_kwargs={"x": 1})
    rendered = up.post(body, "/v1/chat/completions/render").json()
    assert rendered["prompt"].endswith("<|im_start|>user\nhi<|im_end|><|im_start|>assistant\n")
    assert '"x": 1' in rendered["prompt"]
    assert rendered["prompt_tokens"] == len(rendered["tokens"]) == up.post(body).json()["usage"]["prompt_tokens"]


QUESTIONS: dict[str, tuple[str, Any]] = {
    "tokenize": ("/tokenize", {"prompt": "a"}),
    "detokenize": ("/v1/detokenize", {"tokens": [353]}),
    "render": ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "a"}]}),
    "count_tokens": ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}]}),
    "input_tokens": ("/v1/responses/input_tokens", {"input": "a"}),
}


@pytest.mark.parametrize(("path", "body"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_question_about_a_prompt_loads_no_weights(up: Up, path: str, body: Any) -> None:
    assert up.post({"model": "never", **body}, path).status_code == 200
    assert up.metric('appliance_model_state{model="never",state="cold"}') == 1
    assert up.metric('appliance_engine_load_failures_total{model="never"}') == 0


BAD: dict[str, tuple[str, Any, int, str]] = {
    "nothing to tokenize": ("/tokenize", {"model": "demo"}, 400, "prompt"),
    "no model": ("/tokenize", {"prompt": "a"}, 400, "model"),
    "unknown model": ("/tokenize", {"model": "x", "prompt": "a"}, 404, "model"),
    "an id that does not exist": ("/detokenize", {"model": "demo", "tokens": [2**52]}, 400, "prompt"),
    "a template that refuses": ("/tokenize", chat("fussy", "forbidden"), 400, "messages"),
    "no messages": ("/v1/chat/completions/render", {"model": "demo"}, 400, "messages"),
}


@pytest.mark.parametrize(("path", "body", "status", "param"), BAD.values(), ids=BAD.keys())
def test_a_bad_question_is_answered_by_name(up: Up, path: str, body: Any, status: int, param: str) -> None:
    response = up.post(body, path)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)
