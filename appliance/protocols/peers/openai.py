"""What servers that speak OpenAI's protocol are asked, as they name it."""

import json
from collections.abc import Mapping
from typing import Any

from appliance.protocols.peers.question import Outgoing, Question, outgoing, refuse
from appliance.protocols.sampling import DRY
from appliance.vocab.request import Grammar, Message, TextPrompt, Tool

STANDARD: dict[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "logit_bias": "logit_bias",
}
"""Our sampling, by OpenAI's names."""

EXTENDED: dict[str, str] = {
    **STANDARD,
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "min_tokens": "min_tokens",
    "stop_token_ids": "stop_token_ids",
    "ignore_eos": "ignore_eos",
}
"""With what servers of open models understand beside."""

OURS: dict[str, str] = {
    **EXTENDED,
    "reasoning_budget": "reasoning_budget",
    "include_reasoning": "include_reasoning",
}
"""With what another appliance understands."""

NAMES: dict[str, Mapping[str, str]] = {"openai": STANDARD, "compatible": EXTENDED, "appliance": OURS}
"""By what the peer is: which sampling it is told, and as what. The rest is local."""

MAX_TOKENS = {"openai": "max_completion_tokens", "compatible": "max_tokens", "appliance": "max_tokens"}

_FORMS = {"regex": "guided_regex", "choice": "guided_choice", "lark": "guided_grammar"}


def chat(api: str, question: Question) -> Outgoing:
    """A chat. Raises Unsupported for what would be another answer without it."""
    asked, (fields, left_out) = question.asked, _common(api, question)
    extended = api != "openai"
    if asked.rules.scores is not None:
        raise refuse("prompt_logprobs", "a peer does not score a prompt")
    fields |= {
        "messages": [_message(message, extended) for message in asked.messages],
        "tools": [_tool(tool) for tool in asked.tools] or None,
        "tool_choice": _choice(asked.tools),
        "parallel_tool_calls": False if asked.tools and not asked.parallel_calls else None,
        MAX_TOKENS[api]: question.value("max_tokens"),
        "reasoning_effort": asked.template.get("reasoning_effort"),
        **_form(api, asked.grammar),
    }
    if (count := question.sampling.logprobs) is not None:
        fields |= {"logprobs": True, "top_logprobs": count}
    if asked.continue_final:
        if not extended:
            raise refuse("continue_final_message", "the peer begins a new turn always")
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
    kwargs = {name: value for name, value in asked.template.items() if name != "reasoning_effort"}
    _extra(extended, "chat_template_kwargs", kwargs or None, fields, left_out)
    return outgoing("/v1/chat/completions", fields, left_out)


def complete(api: str, question: Question) -> Outgoing:
    """A raw prompt's continuation. Raises Unsupported as `chat`."""
    fields, left_out = _common(api, question)
    prompt = question.prompt
    assert prompt is not None
    if question.asked.rules.scores is not None:
        raise refuse("echo", "a peer does not score a prompt, also not for `prompt_logprobs`")
    fields |= {
        "prompt": prompt.text if isinstance(prompt, TextPrompt) else list(prompt.tokens),
        "suffix": prompt.suffix if isinstance(prompt, TextPrompt) else None,
        "max_tokens": question.value("max_tokens") or question.asked.default_max_tokens,
        "logprobs": question.sampling.logprobs,
        **_form(api, question.asked.grammar),
    }
    return outgoing("/v1/completions", fields, left_out)


def _common(api: str, question: Question) -> tuple[dict[str, Any], list[str]]:
    """What both endpoints take, and what is left out for this peer."""
    asked, names = question.asked, NAMES[api]
    fields: dict[str, Any] = {"model": question.model, "stream": True, "stream_options": {"include_usage": True}}
    left_out: list[str] = []
    for name in sorted(question.given_names - {"max_tokens", "logprobs"}):
        if name in names:
            fields[names[name]] = _plain(question.value(name))
        else:
            left_out.append(name)
    fields["user"] = asked.user
    rules = asked.rules
    if rules.allowed is not None or rules.bad_words:
        if api != "appliance":
            raise refuse("bad_words" if rules.bad_words else "allowed_token_ids", "the peer does not know it")
        fields |= {"allowed_token_ids": rules.allowed, "bad_words": rules.bad_words or None}
    ours = api == "appliance"
    if rules.xtc_probability:
        _extra(ours, "xtc_probability", rules.xtc_probability, fields, left_out)
        _extra(ours, "xtc_threshold", rules.xtc_threshold, fields, left_out)
    if rules.dry_multiplier:
        for name in DRY:
            _extra(ours, name, _plain(getattr(rules, name)), fields, left_out)
    _extra(ours, "cache_salt", asked.cache_salt or None, fields, left_out)
    _extra(ours, "priority", -asked.priority or None, fields, left_out)
    _extra(ours, "keep_alive", asked.keep_alive, fields, left_out)
    _extra(ours, "adapter", asked.adapter, fields, left_out)
    _extra(api != "openai", "include_stop_str_in_output", asked.shows_stop or None, fields, left_out)
    if asked.prediction:
        fields["prediction"] = {"type": "content", "content": asked.prediction}
    return fields, left_out


def _extra(known: bool, name: str, value: Any, fields: dict[str, Any], left_out: list[str]) -> None:
    """A field that changes how an answer comes about, not what was asked: left out where it is not known."""
    if value is None:
        return
    if known:
        fields[name] = value
    else:
        left_out.append(name)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _message(message: Message, extended: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        said["name"] = message.name
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if extended and message.reasoning:
        said["reasoning_content"] = message.reasoning
    return said


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _choice(tools: tuple[Tool, ...]) -> Any:
    forced = [tool.name for tool in tools if tool.forced]
    if not forced:
        return None
    if len(forced) == len(tools) > 1:
        return "required"
    named = [{"type": "function", "function": {"name": name}} for name in forced]
    if len(named) == 1:
        return named[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named}}


def _form(api: str, grammar: Grammar | None) -> dict[str, Any]:
    match grammar:
        case None:
            return {}
        case Grammar("json_object"):
            return {"response_format": {"type": "json_object"}}
        case Grammar("json_schema", text):
            schema = {"name": "answer", "schema": json.loads(text)}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case Grammar(kind, text, param):
            if api == "openai":
                raise refuse(param, "the peer knows JSON schemas only")
            return {_FORMS[kind]: json.loads(text) if kind == "choice" else text}
