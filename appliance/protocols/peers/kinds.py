"""What kinds of peers there are: one row each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from appliance.protocols.peers import anthropic, openai
from appliance.protocols.peers.anthropic_answer import AnthropicAnswer
from appliance.protocols.peers.openai_answer import OpenAIAnswer
from appliance.protocols.peers.question import Outgoing, Question, Reading

ANTHROPIC_VERSION = "2023-06-01"


def _bearer(secret: str | None) -> dict[str, str]:
    return {} if secret is None else {"authorization": f"Bearer {secret}"}


def _api_key(secret: str | None) -> dict[str, str]:
    return {"anthropic-version": ANTHROPIC_VERSION, **({} if secret is None else {"x-api-key": secret})}


def _openai(api: str, question: Question) -> Outgoing:
    return openai.chat(api, question) if question.prompt is None else openai.complete(api, question)


@dataclass(frozen=True, slots=True)
class Kind:
    """`ask` raises Unsupported, `read` is given an estimate of the prompt's tokens, `health` is a path that answers
    200 while all is well, `models` one that lists its models, `headers` says how a secret is shown.
    """

    ask: Callable[[Question], Outgoing]
    read: Callable[[int], Reading]
    headers: Callable[[str | None], Mapping[str, str]]
    health: str = "/v1/models"
    models: str = "/v1/models"


_PAGE = "/v1/models?limit=1000"
"""Anthropic gives 20 where nobody asks for more."""

KINDS: dict[str, Kind] = {
    "openai": Kind(partial(_openai, "openai"), OpenAIAnswer, _bearer),
    "compatible": Kind(partial(_openai, "compatible"), OpenAIAnswer, _bearer),
    "appliance": Kind(partial(_openai, "appliance"), OpenAIAnswer, _bearer, "/readyz"),
    "anthropic": Kind(anthropic.message, AnthropicAnswer, _api_key, _PAGE, _PAGE),
}
"""By the `api` of a peer."""
