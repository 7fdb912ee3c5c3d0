"""What a generation tells: one `Started`, then deltas, then one `Finished` or `Failed`."""

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "tool_calls", "cancelled", "error"]


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Token counts of one sequence; `cached_tokens` of the prompt were not computed again. Speculative decoding
    proposed `drafted` tokens, and `accepted` so many of them.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    drafted: int = 0
    accepted: int = 0


class TopToken(msgspec.Struct, frozen=True, array_like=True):
    """A candidate at one position; `raw` are the token's bytes, which may be part of a character. A peer does not
    tell its `id`.
    """

    token: str
    logprob: float
    raw: bytes
    id: int | None = None


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """The chosen token's natural log-probability and the likeliest candidates, best first. How likely it was among
    all of them, its `rank`, is told of a prompt's tokens only.
    """

    token: str
    logprob: float
    raw: bytes
    top: tuple[TopToken, ...] = ()
    id: int | None = None
    rank: int | None = None


class Reuse(msgspec.Struct, frozen=True, array_like=True):
    """Why no more of a prompt was cached: `shared` of its tokens are stored, then comes `asked` where `stored` is.

    `reason` is off (no prefixes are kept) or one of `appliance.engine.prefix_cache.Reason`. The texts are those of
    the two tokens.
    """

    reason: str
    shared: int = 0
    asked: int | None = None
    stored: int | None = None
    asked_text: str = ""
    stored_text: str = ""


class Started(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """The prompt is rendered and admitted; nothing a tokenizer could object to comes after this."""

    prompt_tokens: int
    cached_tokens: int
    reuse: Reuse | None = None


class TextDelta(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """Text for the client: whole characters only, no part of a possible stop string or tag. `prompt` are the tokens
    of a prompt that was to be scored, told once; the first follows on nothing, so its log-probability is 0.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt: tuple[TokenLogprob, ...] = ()


class ReasoningDelta(msgspec.Struct, frozen=True, tag=3, array_like=True):
    """Text of the model's reasoning."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ToolCallDelta(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """A piece of a tool call: `id` and `name` come once, with the first piece of call `index`."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class Finished(msgspec.Struct, frozen=True, tag=5, array_like=True):
    """The end; `stop` is the stop string that matched, if one did.

    `warnings` say how often something that looked like a tool call became text, and why.
    """

    reason: FinishReason
    usage: Usage
    stop: str | None = None
    warnings: tuple[tuple[str, int], ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=6, array_like=True):
    """This sequence failed; `code` is that of an error in `appliance.errors`."""

    code: str
    message: str
    param: str | None = None


Delta = TextDelta | ReasoningDelta | ToolCallDelta
Event = Started | TextDelta | ReasoningDelta | ToolCallDelta | Finished | Failed
