"""Which protocol answers at which path: one row per endpoint that generates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from appliance.protocols import anthropic_messages, ollama, openai_chat, openai_completions
from appliance.protocols.adapter import Decoded, Encoder, Fold
from appliance.server import responses
from appliance.server.context import Context

SERVER_SENT_EVENTS = "text/event-stream; charset=utf-8"
JSON_LINES = "application/x-ndjson"

Read = TypeVar("Read")


def _nothing(context: Context, said: Encoder | Fold) -> None:
    """Most answers are forgotten once they are given."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """`decode` raises BadRequest; `prefix` begins the ids of answers; `ended` is told of every answer that was begun,
    also of those that failed.
    """

    decode: Callable[[bytes, Context], Decoded]
    prefix: str
    content_type: str = SERVER_SENT_EVENTS
    ended: Callable[[Context, Encoder | Fold], None] = _nothing


def alone(read: Callable[[bytes], Read]) -> Callable[[bytes, Context], Read]:
    """For requests that say everything themselves."""
    return lambda body, context: read(body)


ADAPTERS: dict[str, Adapter] = {
    "/v1/chat/completions": Adapter(alone(openai_chat.read), "chatcmpl-"),
    "/v1/completions": Adapter(alone(openai_completions.read), "cmpl-"),
    "/v1/messages": Adapter(alone(anthropic_messages.read), "msg_"),
    "/v1/responses": Adapter(responses.read, "resp_", ended=responses.ended),
    "/api/chat": Adapter(alone(ollama.read_chat), "ollama-", JSON_LINES),
    "/api/generate": Adapter(alone(ollama.read_generate), "ollama-", JSON_LINES),
}
