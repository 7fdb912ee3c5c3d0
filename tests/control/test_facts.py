"""What is known of a request without its tokenizer."""

import pytest

from appliance.control.facts import facts_of, prompt_tokens
from appliance.control.router import Facts
from appliance.vocab.request import GenerateRequest, Grammar, Message, TextPrompt, TokenPrompt, Tool, ToolCall

USER = Message("user", "hello")
SCHEMA = Grammar("json_schema", "{}")


def facts(request: GenerateRequest, **headers: str) -> Facts:
    return facts_of(request, "/v1/chat/completions", "ci", {name.replace("_", "-"): v for name, v in headers.items()})


HAS = {
    "nothing": (GenerateRequest(model="auto", messages=(USER,)), set()),
    "tools": (GenerateRequest(model="auto", messages=(USER,), tools=(Tool("f"),)), {"tools"}),
    "a schema": (GenerateRequest(model="auto", messages=(USER,), grammar=SCHEMA), {"json_schema"}),
    "any object": (GenerateRequest(model="auto", messages=(USER,), grammar=Grammar("json_object")), {"json_schema"}),
    "another grammar": (GenerateRequest(model="auto", messages=(USER,), grammar=Grammar("regex", "a")), set()),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "has"), HAS.values(), ids=HAS)
def test_what_a_request_has_is_seen(request_: GenerateRequest, has: set[str]) -> None:
    found = facts(request_)
    assert (found.has, found.model, found.key, found.endpoint) == (has, "auto", "ci", "/v1/chat/completions")


SESSIONS = {
    "a header": (GenerateRequest(model="auto"), {"x_session_id": "s1"}, "s1"),
    "a user": (GenerateRequest(model="auto", user="u1"), {}, "u1"),
    "the header before the user": (GenerateRequest(model="auto", user="u1"), {"x_session_id": "s1"}, "s1"),
    "neither": (GenerateRequest(model="auto"), {}, ""),
}


@pytest.mark.parametrize(("request_", "headers", "session"), SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_a_header_or_a_user(request_: GenerateRequest, headers: dict[str, str], session: str) -> None:
    assert facts(request_, **headers).session == session


def test_a_growing_conversation_keeps_its_prefix_and_another_has_its_own() -> None:
    opening = (Message("system", "be kind"), USER)
    later = (*opening, Message("assistant", "hi"), Message("user", "more"))
    first, second = (facts(GenerateRequest(model="auto", messages=each)).prefix for each in (opening, later))
    assert first == second != ""
    assert facts(GenerateRequest(model="auto", messages=(opening[0], Message("user", "bye")))).prefix != first
    text = "a" * 2000
    assert facts(GenerateRequest(model="auto", prompts=(TextPrompt(text=text),))).prefix == text[:1024]
    assert facts(GenerateRequest(model="auto", prompts=(TokenPrompt(tokens=(1, 2)),))).prefix == "1 2"


ENGLISH = "The quick brown fox jumps over the lazy dog and runs away from everyone else. " * 40
COUNTS = {
    "english": (GenerateRequest(model="a", messages=(Message("user", ENGLISH),)), 640, 960),
    "tokens are counted": (GenerateRequest(model="a", prompts=(TokenPrompt(tokens=(1,) * 77),)), 77, 77),
    "the longest prompt": (
        GenerateRequest(model="a", prompts=(TextPrompt(text=""), TokenPrompt(tokens=(1, 2, 3)))), 3, 3,
    ),
    "calls and reasoning": (
        GenerateRequest(
            model="a",
            messages=(Message("assistant", None, reasoning="r" * 360, tool_calls=(ToolCall("1", "f", "a" * 360),)),),
        ), 200, 210,
    ),
    "tools": (GenerateRequest(model="a", messages=(USER,), tools=(Tool("f", "d" * 3600),)), 1000, 1100),
    "a lone surrogate": (GenerateRequest(model="a", messages=(Message("user", "\ud800"),)), 1, 10),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "least", "most"), COUNTS.values(), ids=COUNTS)
def test_the_size_of_a_prompt_is_about_right(request_: GenerateRequest, least: int, most: int) -> None:
    assert least <= prompt_tokens(request_) <= most


def test_the_effort_is_what_the_template_is_told() -> None:
    assert facts(GenerateRequest(model="a", template={"reasoning_effort": "high"})).effort == "high"
    assert facts(GenerateRequest(model="a")).effort == ""
