"""What a completions body asks for, and the bytes of its answer."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest, EngineDied
from appliance.protocols.adapter import Answer
from appliance.protocols.openai_completions import decode, read
from appliance.vocab.event import Event, Finished, Started, TextDelta, TokenLogprob, TopToken, Usage
from appliance.vocab.request import Grammar, SamplingPatch, TextPrompt, TokenPrompt, TokenRules


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "prompt": "once", **fields}).encode()


PROMPTS: dict[str, tuple[Any, tuple[TextPrompt | TokenPrompt, ...]]] = {
    "a string": ("a", (TextPrompt(text="a"),)),
    "strings": (["a", "b"], (TextPrompt(text="a"), TextPrompt(text="b"))),
    "token ids": ([1, 2], (TokenPrompt(tokens=(1, 2)),)),
    "lists of ids": ([[1], [2, 3]], (TokenPrompt(tokens=(1,)), TokenPrompt(tokens=(2, 3)))),
    "mixed": (["a", [2]], (TextPrompt(text="a"), TokenPrompt(tokens=(2,)))),
}


@pytest.mark.parametrize(("sent", "prompts"), PROMPTS.values(), ids=PROMPTS.keys())
def test_a_prompt_is_text_or_tokens(sent: Any, prompts: tuple[TextPrompt | TokenPrompt, ...]) -> None:
    assert decode(body(prompt=sent)).prompts == prompts


BAD: dict[str, tuple[bytes, str, str]] = {
    "no prompt": (b'{"model": "demo"}', "prompt", "required"),
    "prompt null": (body(prompt=None), "prompt", "required"),
    "no prompts": (body(prompt=[]), "prompt", "at least one"),
    "an object": (body(prompt={}), "prompt", "must be a string"),
    "a prompt that is an object": (body(prompt=["a", {}]), "prompt[1]", "a string or a list of token ids"),
    "an empty list of ids": (body(prompt=[[1], []]), "prompt[1]", "at least one token"),
    "a negative id": (body(prompt=[1, -1]), "prompt", "token ids"),
    "a flag among ids": (body(prompt=[[1, True]]), "prompt[0]", "token ids"),
    "max_tokens negative": (body(max_tokens=-1), "max_tokens", "at least 0"),
    "logprobs a flag": (body(logprobs=True), "logprobs", "from 0 to 20"),
    "best_of below n": (body(n=3, best_of=2), "best_of", "smaller than"),
    "best_of in a stream": (body(best_of=2, stream=True), "best_of", "streamed"),
    "streamed scores": (body(prompt_logprobs=1, stream=True), "prompt_logprobs", "streamed"),
    "too many candidates": (body(prompt_logprobs=21), "prompt_logprobs", "from 0 to 20"),
    "a suffix of ids": (body(prompt=[1, 2], suffix="end"), "suffix", "text"),
    "too many answers": (body(prompt=["a"] * 100, n=100), "prompt", "10000 answers"),
}


@pytest.mark.parametrize(("sent", "param", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_a_400_that_names_the_place(sent: bytes, param: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(sent)
    assert (caught.value.param, words in caught.value.message) == (param, True), caught.value.message


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {"n": 1, "logprobs": None, "messages": (), "sampling": SamplingPatch(),
                      "default_max_tokens": 16}),
    "no tokens": ({"max_tokens": 0, "echo": True}, {"sampling": SamplingPatch(max_tokens=0)}),
    "a gap": ({"prompt": "a", "suffix": "c"}, {"prompts": (TextPrompt(text="a", suffix="c"),)}),
    "a scored prompt": ({"echo": True, "logprobs": 3}, {"rules": TokenRules(scores=3), "logprobs": 3}),
    "a scored prompt under vLLM's name": ({"prompt_logprobs": 2}, {"rules": TokenRules(scores=2), "logprobs": None}),
    "scored under both names": (
        {"echo": True, "logprobs": 1, "prompt_logprobs": 4}, {"rules": TokenRules(scores=4), "logprobs": 1}),
    "a prompt that is only scored": ({"echo": True, "logprobs": 0, "max_tokens": 0},
                                     {"rules": TokenRules(scores=0), "sampling": SamplingPatch(max_tokens=1)}),
    "best of three": ({"n": 2, "best_of": 3}, {"n": 3, "logprobs": 0}),
    "log-probabilities": ({"logprobs": 5}, {"logprobs": 5}),
    "a form": ({"guided_regex": "a+"}, {"grammar": Grammar("regex", "a+", "guided_regex")}),
    "extensions": ({"top_k": 5, "min_p": 0.1}, {"sampling": SamplingPatch(top_k=5, min_p=0.1)}),
    "unknown fields": ({"flavour": 1, "suffix": ""}, {"ignored": ("flavour",)}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_a_body_becomes_a_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    request = decode(body(**fields))
    assert {name: getattr(request, name) for name in expected} == expected


HEAD = '"id":"cmpl-1","object":"text_completion","created":7,"model":"demo"'
Events = list[tuple[int, Event]]


def token(text: str, logprob: float, *top: TopToken) -> TokenLogprob:
    return TokenLogprob(text, logprob, text.encode(), top)


def said(index: int, text: str, logprobs: str = "null", reason: str = "null") -> str:
    return f'{{"index":{index},"text":{text},"logprobs":{logprobs},"finish_reason":{reason}}}'


HELLO: Events = [
    (0, Started(5, 3)),
    (0, TextDelta("Hel\u2028")),
    (0, TextDelta("lo")),
    (0, Finished("stop", Usage(5, 2, 3))),
]
SPOKEN: Events = [
    (0, Started(5, 0)),
    (0, TextDelta("é", (token("é", -0.5, TopToken("x", -1.0, b"x")),))),
    (0, TextDelta("b", (token("b", -2.0),))),
    (0, Finished("length", Usage(5, 2))),
]
STREAMS: dict[str, tuple[dict[str, Any], Events, list[str]]] = {
    "a text": ({}, HELLO, [said(0, '"Hel\\u2028"'), said(0, '"lo"'), said(0, '""', reason='"stop"')]),
    "an echo": (
        {"echo": True}, HELLO,
        [said(0, '"once"'), said(0, '"Hel\\u2028"'), said(0, '"lo"'), said(0, '""', reason='"stop"')]),
    "log-probabilities": (
        {"logprobs": 1}, SPOKEN,
        [said(0, '"é"', '{"tokens":["é"],"token_logprobs":[-0.5],"top_logprobs":[{"x":-1.0,"é":-0.5}],'
                        '"text_offset":[0]}'),
         said(0, '"b"', '{"tokens":["b"],"token_logprobs":[-2.0],"top_logprobs":[{"b":-2.0}],"text_offset":[1]}'),
         said(0, '""', reason='"length"')]),
}  # fmt: skip


def answer(choices: int = 1, include_usage: bool = False) -> Answer:
    return Answer("cmpl-1", 7, "demo", choices, include_usage, prompts=("once",))


@pytest.mark.parametrize(("fields", "events", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_events_become_chunks(fields: dict[str, Any], events: Events, expected: list[str]) -> None:
    encoder = read(body(stream=True, **fields)).stream(answer())
    sent = b"".join(encoder.feed(index, event) for index, event in events) + encoder.close()
    chunks = [f'data: {{{HEAD},"choices":[{choice}]}}\n\n' for choice in expected]
    assert sent.decode() == "".join(chunks) + "data: [DONE]\n\n"


def test_usage_comes_last_and_is_null_before() -> None:
    encoder = read(body(stream=True)).stream(answer(include_usage=True))
    sent = b"".join(encoder.feed(index, event) for index, event in HELLO) + encoder.close()
    *chunks, usage, done, end = sent.decode().split("\n\n")
    assert all(chunk.endswith(',"usage":null}') for chunk in chunks)
    assert json.loads(usage[6:])["choices"] == []
    assert json.loads(usage[6:])["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert (done, end) == ("data: [DONE]", "")


@pytest.mark.parametrize(("fields", "events"), [row[:2] for row in STREAMS.values()], ids=STREAMS.keys())
def test_the_whole_answer_is_the_stream_folded(fields: dict[str, Any], events: Events) -> None:
    encoder, fold = read(body(**fields)).stream(answer()), read(body(**fields)).whole(answer())
    chunks = []
    for index, event in events:
        fold.feed(index, event)
        chunks += [json.loads(sent[6:])["choices"][0] for sent in [encoder.feed(index, event)] if sent]
    (choice,) = json.loads(fold.body())["choices"]
    assert choice["text"] == "".join(chunk["text"] for chunk in chunks)
    assert choice["finish_reason"] == chunks[-1]["finish_reason"]
    columns = [chunk["logprobs"] for chunk in chunks if chunk["logprobs"]]
    names = columns[0] if columns else {}
    joined = {name: [value for column in columns for value in column[name]] for name in names}
    assert (choice["logprobs"] or {}) == joined


def test_the_best_of_several_is_kept_and_all_are_paid_for() -> None:
    fold = read(body(best_of=2)).whole(answer(choices=2))
    for index, logprob in ((0, -3.0), (1, -0.1)):
        fold.feed(index, TextDelta(f"answer {index}", (token("t", logprob),)))
        fold.feed(index, Finished("stop", Usage(5, 4)))
    whole = json.loads(fold.body())
    assert [(c["index"], c["text"], c["logprobs"]) for c in whole["choices"]] == [(0, "answer 1", None)]
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (5, 8)


def test_every_prompt_counts_once() -> None:
    fold = read(body(prompt=["a", "bb"], n=2)).whole(Answer("cmpl-1", 7, "demo", 4))
    for index, prompt_tokens in enumerate((1, 1, 2, 2)):
        fold.feed(index, Finished("stop", Usage(prompt_tokens, 1)))
    whole = json.loads(fold.body())
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (3, 4)


def test_a_stream_that_fails_says_so() -> None:
    assert read(body()).stream(answer()).error(EngineDied("gone")).startswith(b'data: {"error":{"message":"gone"')
