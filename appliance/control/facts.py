"""What routing may know of a request: estimated from its bytes, so that no engine is started to route. PURE."""

from collections.abc import Mapping
from itertools import takewhile

import msgspec

from appliance.config.deployment import EMPTY
from appliance.control.router import Facts
from appliance.vocab.request import GenerateRequest, Message, TextPrompt, TokenPrompt

BYTES_PER_TOKEN = 3.6
"""Of English and code; templates and tool schemas included."""
TOKENS_PER_MESSAGE = 4
SESSION_HEADER = "x-session-id"
SCHEMAS = ("json_schema", "json_object")


def facts_of(
    asked: GenerateRequest, endpoint: str, key: str | None = None, headers: Mapping[str, str] = EMPTY
) -> Facts:
    """All that the request itself says; the time, the draw and what is warm are added by who knows them."""
    has = {"tools": bool(asked.tools), "json_schema": asked.grammar is not None and asked.grammar.kind in SCHEMAS}
    return Facts(
        model=asked.model,
        key=key,
        headers=headers,
        has=frozenset(name for name, given in has.items() if given),
        prompt_tokens=prompt_tokens(asked),
        endpoint=endpoint,
        effort=str(asked.template.get("reasoning_effort") or ""),
        session=headers.get(SESSION_HEADER, "") or asked.user or "",
        prefix=_prefix(asked),
    )


def prompt_tokens(asked: GenerateRequest) -> int:
    """About how many tokens the prompt has; the longest of several."""
    if asked.prompts:
        return max(_of_prompt(prompt) for prompt in asked.prompts)
    size = sum(_bytes(message) for message in asked.messages)
    size += len(msgspec.json.encode(asked.tools)) if asked.tools else 0
    return round(size / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * len(asked.messages)


def _of_prompt(prompt: TextPrompt | TokenPrompt) -> int:
    match prompt:
        case TextPrompt(text=text):
            return round(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
        case TokenPrompt(tokens=tokens):
            return len(tokens)


def _bytes(message: Message) -> int:
    texts = [message.content or "", message.reasoning or ""]
    texts += [call.arguments for call in message.tool_calls]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def _prefix(asked: GenerateRequest) -> str:
    """What stays the same while a conversation grows: all up to its first answer, or the head of a raw prompt."""
    if asked.prompts:
        match asked.prompts[0]:
            case TextPrompt(text=text):
                return text[:1024]
            case TokenPrompt(tokens=tokens):
                return " ".join(map(str, tokens[:256]))
    opening = takewhile(lambda message: message.role in ("system", "user"), asked.messages)
    return "\n".join(f"{message.role}: {message.content or ''}" for message in opening)
