"""What is asked and said of a prompt's own tokens by vLLM's `prompt_logprobs`: beside the answer, where it does not
stream.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols.fields import Reader, typed
from appliance.protocols.openai_stream import smallest
from appliance.vocab.event import TokenLogprob, TopToken

PROMPT_LOGPROBS: Reader = typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20")

Position = dict[str, dict[str, Any]]


def scores_asked(given: Mapping[str, Any]) -> int | None:
    """How many candidates are listed of each token; None where it is not asked for. Raises BadRequest."""
    if (most := given.get("prompt_logprobs")) is None:
        return None
    if given.get("stream"):
        raise BadRequest("`prompt_logprobs` cannot be streamed: ask for the whole answer", param="prompt_logprobs")
    return int(most)


def listed(prompt: Sequence[TokenLogprob], most: int) -> list[Position | None]:
    """One row per token: itself, then the `most` likeliest, by id. Nothing is thought of the first."""
    return [None if at == 0 else _position(token, most) for at, token in enumerate(prompt)]


def _position(token: TokenLogprob, most: int) -> Position:
    ranks = {token.id: token.rank} | {one.id: rank for rank, one in enumerate(token.top, 1)}
    shown: tuple[TokenLogprob | TopToken, ...] = (token, *token.top[:most])
    return {
        str(one.id): {"logprob": smallest(one.logprob), "rank": ranks.get(one.id), "decoded_token": one.token}
        for one in shown
    }
