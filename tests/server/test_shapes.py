"""Requests as agents, editors and chat interfaces send them: taken as they are, with nothing left out unsaid."""

import json
from typing import Any

import pytest

from tests.server.up import Up

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
MARK = {"cache_control": {"type": "ephemeral"}}
SHELL = {
    "type": "object",
    "properties": {"cmd": {"type": "string"}},
    "required": ["cmd"],
    "additionalProperties": False,
}


def turns(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in turns]


def part(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **more}]


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": SHELL}}


SHAPES: dict[str, tuple[str, dict[str, Any], str]] = {
    "Aider edits": (CHAT, {
        "messages": turns(("system", part("rules", **MARK)), ("user", "a file"), ("assistant", "Ok."),
                          ("user", part("edit it", **MARK))),
        "temperature": 0, "stream": True, "reasoning_effort": "low"}, "You said: edit it"),
    "Aider names a commit": (CHAT, {
        "messages": turns(("system", "one line"), ("user", "a diff")), "temperature": 0, "stream": False,
        "max_tokens": 64}, "You said: a diff"),
    "Open WebUI chats": (CHAT, {
        "messages": turns(("system", "be kind"), ("user", part("hello"))), "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 0.7, "top_k": 40, "min_p": 0.05,
        "repetition_penalty": 1.1, "frequency_penalty": 0, "max_tokens": 128, "user": "someone"}, "You said: hello"),
    "Open WebUI asks for a title": (CHAT, {
        "messages": turns(("user", "### Task:\na title")), "stream": False, "max_completion_tokens": 1000,
        "metadata": {"task": "title_generation"}}, "a title"),
    "Open WebUI, through Ollama's API": ("/api/chat", {
        "messages": turns(("user", "hello")), "stream": True, "keep_alive": "5m",
        "options": {"temperature": 0.8, "num_ctx": 2048, "num_predict": 128, "repeat_last_n": 64, "stop": ["#"],
                    "seed": 1}}, "You said: hello"),
    "Continue chats": (CHAT, {
        "messages": turns(("system", "rules"), ("user", part("what is this?"))), "stream": True, "max_tokens": 128,
        "tools": [function("read_file")], "parallel_tool_calls": False, "stream_options": {"include_usage": True},
        "stop": ["\n\nUser:"]}, "You said: what is this?"),
    "Continue completes with a suffix": (COMPLETIONS, {
        "model": "coder", "prompt": "def add(a, b):\n", "suffix": "\nprint(add(1, 2))", "stream": True,
        "max_tokens": 32, "temperature": 0.01, "stop": ["\n\n", "```"]}, "def add"),
    "Continue completes, through Ollama's API": ("/api/generate", {
        "model": "coder", "prompt": "def add(a, b):\n", "suffix": "\n", "raw": True, "stream": True,
        "keep_alive": 1800, "options": {"num_predict": 32, "temperature": 0.01, "stop": ["\n\n"], "num_ctx": 4096}},
        "def add"),
    "Codex runs a command": (RESPONSES, {
        "instructions": "be brief", "stream": True,
        "input": [item("developer", "rules"), item("user", "where am I?")],
        "tools": [{"type": "function", "name": "exec_command", "strict": False, "parameters": SHELL},
                  {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark",
                                                                       "definition": "start: /.+/"}},
                  {"type": "namespace", "name": "agents", "description": "d", "tools": [
                      {"type": "function", "name": "close", "parameters": SHELL}]},
                  {"type": "web_search", "external_web_access": False}],
        "tool_choice": "auto", "parallel_tool_calls": False, "store": False, "reasoning": None,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "client_metadata": {"a": "b"}},
        "You said: where am I?"),
    "Claude Code, in its second turn": (MESSAGES, {
        "max_tokens": 100, "stream": True, "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking", "keep": "all"}]},
        "output_config": {"effort": "high"}, "metadata": {"user_id": "{}"},
        "system": [{"type": "text", "text": "x-anthropic-billing-header: n=1;"}, {**part("rules")[0], **MARK}],
        "tools": [{"name": "Read", "description": "d", "input_schema": SHELL},
                  {"name": "Fetch", "description": "d", "input_schema": SHELL, "defer_loading": True}],
        "messages": [*turns(("user", part("look for a tool")), ("system", part("# Environment"))),
                     {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Find", "input": {}}]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", **MARK, "content": [
                         {"type": "tool_reference", "tool_name": "Fetch"}]}, *part("go on")]}]},
        "Fetch can be called now\n\ngo on"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "said"), SHAPES.values(), ids=SHAPES.keys())
def test_it_is_answered_as_it_is_sent(up: Up, path: str, body: dict[str, Any], said: str) -> None:
    response = up.post({"model": "demo", **body}, path)
    assert response.status_code == 200, response.text
    assert said in _text(response.text)
    left_out = {"tools[3]:web_search"} if "web_search" in json.dumps(body) else set()
    assert set(response.headers.get("x-appliance-ignored", "").split(", ")) - {""} == left_out


def _text(answer: str) -> str:
    """All text of an answer of any protocol, streamed or not, in order."""
    lines = [line.removeprefix("data: ") for line in answer.splitlines() if not line.startswith(("event:", ":"))]
    return "".join(_said(json.loads(line)) for line in lines if line not in ("", "[DONE]"))


def _said(value: dict[str, Any]) -> str:
    match value:
        case {"choices": [{"delta": {"content": str(text)}}]} | {"choices": [{"message": {"content": str(text)}}]}:
            return text
        case {"choices": [{"text": str(text)}]} | {"message": {"content": str(text)}} | {"response": str(text)}:
            return text
        case {"type": "response.output_text.delta", "delta": str(text)} | {"delta": {"text": str(text)}}:
            return text
        case _:
            return ""
