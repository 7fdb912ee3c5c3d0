"""What each kind of peer is asked, in its own words: what our decoders read from it is what was asked."""

import json
from typing import Any

import msgspec
import pytest

from appliance.errors import Unsupported
from appliance.protocols import anthropic_messages, openai_chat, openai_completions
from appliance.protocols.peers.kinds import KINDS
from appliance.protocols.peers.question import Question
from appliance.vocab.request import GenerateRequest, Sampling

TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "time", "description": "now", "strict": True}},
]
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Bern and Rome?"},
    {"role": "assistant", "content": "Looking.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}},
        {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sun"},
    {"role": "tool", "tool_call_id": "c2", "content": "rain"},
    {"role": "user", "content": "And?"},
]  # fmt: skip
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def question(api: str, said: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The body a peer of this kind is sent for a chat with these fields."""
    body = {"model": "far/m", "messages": TALK, **fields}
    return dict(json.loads(KINDS[api].ask(asked(body, said)).body))


def asked(body: dict[str, Any], said: dict[str, Any] | None = None) -> Question:
    request = openai_chat.decode(json.dumps(body).encode())
    values = {**request.sampling.given(), **(said or {})}
    sampling = Sampling(**values, logprobs=request.logprobs)
    return Question("m", request, sampling, frozenset(values))


REQUESTS: dict[str, dict[str, Any]] = {
    "a conversation": {},
    "tools": {"tools": TOOLS},
    "a tool that must be called": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "time"}}},
    "any tool": {"tools": TOOLS, "tool_choice": "required"},
    "one at a time": {"tools": TOOLS, "parallel_tool_calls": False},
    "a schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "an object": {"response_format": {"type": "json_object"}},
    "sampling": {"temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": ["a", "b"], "logit_bias": {"7": 1.5}},
    "log-probabilities": {"logprobs": True, "top_logprobs": 3},
    "reasoning effort": {"reasoning_effort": "high"},
}


def comparable(request: GenerateRequest) -> GenerateRequest:
    return msgspec.structs.replace(request, model="", stream=False, include_usage=False, user=None)


@pytest.mark.parametrize("fields", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("api", ["openai", "compatible", "appliance"])
def test_another_server_reads_what_was_asked(api: str, fields: dict[str, Any]) -> None:
    given = openai_chat.decode(json.dumps({"model": "x", "messages": TALK, **fields}).encode())
    there = openai_chat.decode(json.dumps(question(api, **fields)).encode())
    assert comparable(there) == comparable(given)
    assert (there.stream, there.include_usage, there.ignored) == (True, True, ())


LIKE_ANTHROPIC = [
    name for name in REQUESTS if name not in ("an object", "log-probabilities", "sampling", "reasoning effort")
]


@pytest.mark.parametrize("name", LIKE_ANTHROPIC)
def test_anthropics_messages_say_the_same(name: str) -> None:
    given = openai_chat.decode(json.dumps({"model": "x", "messages": TALK, **REQUESTS[name]}).encode())
    there = anthropic_messages.decode(json.dumps(question("anthropic", **REQUESTS[name])).encode())
    assert [(m.role, m.content, m.tool_calls, m.tool_call_id) for m in there.messages] == [
        (
            m.role,
            m.content,
            tuple(msgspec.structs.replace(c, arguments=c.arguments) for c in m.tool_calls),
            m.tool_call_id,
        )
        for m in given.messages
    ]
    assert [(tool.name, tool.description, tool.forced) for tool in there.tools] == [
        (tool.name, tool.description, tool.forced) for tool in given.tools
    ]
    assert (there.grammar and json.loads(there.grammar.text)) == (given.grammar and json.loads(given.grammar.text))
    assert there.parallel_calls == given.parallel_calls


def test_results_of_calls_come_together_in_one_turn() -> None:
    turns = question("anthropic")["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert question("anthropic")["system"] == "Be brief."


OURS: dict[str, Any] = {"cache_salt": "s", "priority": 2, "keep_alive": 5}
LEFT_OUT: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "by OpenAI": ("openai", {"top_k": 3, "min_p": 0.1, **OURS}, {"top_k", "min_p", *OURS}),
    "by a compatible one": ("compatible", {"top_k": 3, **OURS}, {*OURS}),
    "by an appliance": ("appliance", {"top_k": 3, **OURS}, set()),
    "by Anthropic": ("anthropic", {"top_k": 3, "seed": 1, "min_p": 0.1}, {"seed", "min_p"}),
}


@pytest.mark.parametrize(("api", "fields", "names"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_a_peer_does_not_know_is_left_out_and_named(api: str, fields: dict[str, Any], names: set[str]) -> None:
    outgoing = KINDS[api].ask(asked({"model": "x", "messages": TALK, **fields}))
    assert set(outgoing.left_out) == names
    assert names.isdisjoint(json.loads(outgoing.body))


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a regex, of OpenAI": ("openai", {"guided_regex": "a+"}),
    "a regex, of Anthropic": ("anthropic", {"guided_regex": "a+"}),
    "an object, of Anthropic": ("anthropic", {"response_format": {"type": "json_object"}}),
    "log-probabilities, of Anthropic": ("anthropic", {"logprobs": True}),
    "bad words, of a compatible one": ("compatible", {"bad_words": ["no"]}),
    "allowed tokens, of OpenAI": ("openai", {"allowed_token_ids": [1]}),
}


@pytest.mark.parametrize(("api", "fields"), REFUSED.values(), ids=REFUSED)
def test_what_would_be_another_answer_without_it_is_refused(api: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        KINDS[api].ask(asked({"model": "x", "messages": TALK, **fields}))


@pytest.mark.parametrize("api", list(KINDS))
def test_what_nobody_decided_is_left_to_the_peer(api: str) -> None:
    body = question(api)
    assert not {"temperature", "top_p", "top_k", "seed", "stop", "presence_penalty"} & body.keys()


@pytest.mark.parametrize("api", ["openai", "compatible", "appliance"])
def test_raw_prompts_go_to_completions(api: str) -> None:
    for prompt in ("Once", [1, 2, 3]):
        request = openai_completions.decode(json.dumps({"model": "x", "prompt": prompt, "max_tokens": 3}).encode())
        values = request.sampling.given()
        outgoing = KINDS[api].ask(Question("m", request, Sampling(**values), frozenset(values), request.prompts[0]))
        assert outgoing.path == "/v1/completions"
        assert json.loads(outgoing.body)["prompt"] == prompt
        assert openai_completions.decode(outgoing.body).prompts == request.prompts


def test_secrets_are_shown_as_each_kind_wants_them() -> None:
    assert KINDS["openai"].headers("s") == {"authorization": "Bearer s"}
    assert KINDS["anthropic"].headers("s")["x-api-key"] == "s"
    assert KINDS["compatible"].headers(None) == {}
