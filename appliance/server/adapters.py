"""Which protocol answers at which path: one row per endpoint that generates."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.protocols import anthropic_messages, openai_chat, openai_completions
from appliance.protocols.adapter import Decoded, Encoder, Fold
from appliance.server.context import Context

SERVER_SENT_EVENTS = "text/event-stream; charset=utf-8"
JSON_LINES = "application/x-ndjson"


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


def _alone(read: Callable[[bytes], Decoded]) -> Callable[[bytes, Context], Decoded]:
    """For a protocol whose requests say everything themselves."""
    return lambda body, context: read(body)


ADAPTERS: dict[str, Adapter] = {
    "/v1/chat/completions": Adapter(_alone(openai_chat.read), "chatcmpl-"),
    "/v1/completions": Adapter(_alone(openai_completions.read), "cmpl-"),
    "/v1/messages": Adapter(_alone(anthropic_messages.read), "msg_"),
}
