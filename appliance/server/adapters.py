"""Which protocol answers at which path: one row per endpoint that generates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from appliance.protocols import anthropic_messages, ollama, openai_chat, openai_completions, openai_responses
from appliance.protocols.adapter import Decoded, Encoder, Fold
from appliance.protocols.fields import Reader
from appliance.server import responses
from appliance.server.context import Context
from appliance.server.sse import SERVER_SENT_EVENTS

JSON_LINES = "application/x-ndjson"

Read = TypeVar("Read")


def _nothing(context: Context, said: Encoder | Fold) -> None:
    """Most answers are forgotten once they are given."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """`decode` raises BadRequest; `prefix` begins the ids of answers; `ended` is told of every answer that was begun,
    also of those that failed.

    `text` is what the endpoint is for, `fields` its body's with those it cannot do without.
    """

    text: str
    decode: Callable[[bytes, Context], Decoded]
    fields: Mapping[str, Reader]
    required: tuple[str, ...]
    prefix: str
    content_type: str = SERVER_SENT_EVENTS
    ended: Callable[[Context, Encoder | Fold], None] = _nothing


def alone(read: Callable[[bytes], Read]) -> Callable[[bytes, Context], Read]:
    """For requests that say everything themselves."""
    return lambda body, context: read(body)


ADAPTERS: dict[str, Adapter] = {
    "/v1/chat/completions": Adapter(
        "OpenAI's chat completions.",
        alone(openai_chat.read),
        openai_chat.FIELDS,
        ("model", "messages"),
        "chatcmpl-",
    ),
    "/v1/completions": Adapter(
        "OpenAI's text completions: raw text or token ids, no template.",
        alone(openai_completions.read),
        openai_completions.FIELDS,
        ("model", "prompt"),
        "cmpl-",
    ),
    "/v1/responses": Adapter(
        "OpenAI's responses.",
        responses.read,
        openai_responses.FIELDS,
        ("model", "input"),
        "resp_",
        ended=responses.ended,
    ),
    "/v1/messages": Adapter(
        "Anthropic's messages.",
        alone(anthropic_messages.read),
        anthropic_messages.FIELDS,
        ("model", "max_tokens", "messages"),
        "msg_",
    ),
    "/api/chat": Adapter(
        "Ollama's chat; it streams unless told otherwise.",
        alone(ollama.read_chat),
        ollama.CHAT,
        ("model",),
        "ollama-",
        JSON_LINES,
    ),
    "/api/generate": Adapter(
        "Ollama's text generation; it streams unless told otherwise.",
        alone(ollama.read_generate),
        ollama.GENERATE,
        ("model",),
        "ollama-",
        JSON_LINES,
    ),
}
