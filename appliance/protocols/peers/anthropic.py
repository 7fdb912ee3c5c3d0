"""What Anthropic's messages are asked, as they name it."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from appliance.protocols.peers.question import Outgoing, Question, outgoing, refuse
from appliance.vocab.request import Message, Tool

MAX_TOKENS = 4096
"""The protocol wants a number."""

NAMES: dict[str, str] = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop_sequences"}
"""Our sampling, by Anthropic's names; the rest is local."""

CLAMPS = {"temperature": (0.0, 1.0)}


def message(question: Question) -> Outgoing:
    """A message. Raises Unsupported for what would be another answer without it."""
    asked = question.asked
    _refuse(question)
    fields: dict[str, Any] = {
        "model": question.model,
        "max_tokens": question.value("max_tokens") or asked.default_max_tokens or MAX_TOKENS,
        "system": "\n".join(m.content or "" for m in asked.messages if m.role == "system") or None,
        "messages": list(_turns(m for m in asked.messages if m.role != "system")),
        "stream": True,
        "tools": [_tool(tool) for tool in asked.tools] or None,
        "tool_choice": _choice(asked.tools, asked.parallel_calls),
        "metadata": {"user_id": asked.user} if asked.user else None,
    }
    left_out = []
    for name in sorted(question.given_names - {"max_tokens"}):
        if name in NAMES:
            fields[NAMES[name]] = _plain(name, question.value(name))
        else:
            left_out.append(name)
    if asked.grammar is not None:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": json.loads(asked.grammar.text)}}
    left_out += sorted(asked.template)
    return outgoing("/v1/messages", fields, left_out)


def _refuse(question: Question) -> None:
    asked = question.asked
    if question.prompt is not None:
        raise refuse("prompt", "the peer takes messages only")
    if question.sampling.logprobs is not None:
        raise refuse("logprobs", "the peer does not know them")
    if asked.grammar is not None and asked.grammar.kind != "json_schema":
        raise refuse(asked.grammar.param, "the peer knows JSON schemas only")
    if asked.rules.scores is not None:
        raise refuse("prompt_logprobs", "a peer does not score a prompt")
    if asked.rules.bad_words or asked.rules.allowed is not None:
        raise refuse("bad_words" if asked.rules.bad_words else "allowed_token_ids", "the peer does not know it")


def _plain(name: str, value: Any) -> Any:
    if name in CLAMPS:
        low, high = CLAMPS[name]
        return min(max(value, low), high)
    return list(value) if isinstance(value, tuple) else value


def _turns(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Those that follow each other in one role are one turn: results of calls have to come together."""
    for role, group in groupby(messages, lambda m: "assistant" if m.role == "assistant" else "user"):
        if blocks := [block for message in group for block in _blocks(message)]:
            yield {"role": role, "content": blocks}


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content or ""}
        return
    if message.content:
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _object(call.arguments)}


def _object(text: str) -> dict[str, Any]:
    """What a model wrote as arguments may be no JSON."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _tool(tool: Tool) -> dict[str, Any]:
    said: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters or {"type": "object"}}
    return {**said, "description": tool.description} if tool.description else said


def _choice(tools: tuple[Tool, ...], parallel: bool) -> dict[str, Any] | None:
    if not tools:
        return None
    forced = [tool.name for tool in tools if tool.forced]
    if len(forced) not in (0, 1, len(tools)):
        raise refuse("tool_choice", "the peer can be held to one tool or to any")
    said: dict[str, Any] = {"type": "auto"}
    if forced:
        said = {"type": "tool", "name": forced[0]} if len(forced) == 1 else {"type": "any"}
    if not parallel:
        said["disable_parallel_tool_use"] = True
    return said if forced or not parallel else None
