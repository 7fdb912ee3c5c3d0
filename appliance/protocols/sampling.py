"""The sampling fields, which mean the same in every protocol that has them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.fields import Reader, check_depth, refused, typed
from appliance.protocols.keep_alive import keep_alive
from appliance.vocab.request import SamplingPatch, TokenRules

MAX_STOP_STRINGS = 16
MAX_STOP_LENGTH = 256
MAX_CHOICES = 128
MAX_WORDS = 128

Name = Annotated[str, Meta(min_length=1, max_length=512)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Breaker = Annotated[str, Meta(min_length=1, max_length=64)]
Repetition = Annotated[float, Meta(gt=0, le=10)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class StreamOptions(msgspec.Struct):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None


def stop_strings(name: str, value: str | list[str]) -> tuple[str, ...]:
    """Checked stop strings. Raises BadRequest naming the one that cannot be used."""
    strings = (value,) if isinstance(value, str) else tuple(value)
    if len(strings) > MAX_STOP_STRINGS:
        raise BadRequest(f"`{name}` may hold at most {MAX_STOP_STRINGS} strings, got {len(strings)}", param=name)
    for at, string in enumerate(strings):
        if not 0 < len(string) <= MAX_STOP_LENGTH:
            place = name if isinstance(value, str) else f"{name}[{at}]"
            raise BadRequest(f"`{place}` must be 1 to {MAX_STOP_LENGTH} characters long", param=place)
    return strings


def seed(name: str, value: int) -> int:
    """Any 64-bit seed as one without a sign."""
    return value & (2**63 - 1)


def top_k(name: str, value: int) -> int:
    """-1 and 0 both mean off."""
    return max(0, value)


def _template(name: str, value: dict[str, Any]) -> dict[str, Any]:
    for reserved in ("messages", "tools", "add_generation_prompt", "continue_final_message", "tokenize"):
        if reserved in value:
            raise BadRequest(f"`{name}.{reserved}` is set by the server", param=f"{name}.{reserved}")
    return dict(check_depth(name, value))


def _words(name: str, words: list[str]) -> tuple[str, ...]:
    if len(words) > MAX_WORDS:
        raise BadRequest(f"`{name}` may hold at most {MAX_WORDS} words, got {len(words)}", param=name)
    for at, word in enumerate(words):
        if not 0 < len(word) <= MAX_STOP_LENGTH:
            raise BadRequest(f"`{name}[{at}]` must be 1 to {MAX_STOP_LENGTH} characters long", param=f"{name}[{at}]")
    return tuple(words)


fraction = typed(Fraction, "a number from 0 to 1")
penalty = typed(Penalty, "a number from -2 to 2")
positive = typed(Positive, "an integer of at least 1")
count = typed(Count, "an integer of at least 0")
flag = typed(bool, "true or false")
text = typed(str, "a string")
model_name = typed(Name, "the name of a model")
effort = typed(Effort, "one of none, minimal, low, medium, high, xhigh, max")
stop = typed(str | list[str], "a string or a list of strings", stop_strings)
stop_list = typed(list[str], "a list of strings", stop_strings)
choices = typed(Annotated[int, Meta(ge=1, le=MAX_CHOICES)], f"an integer from 1 to {MAX_CHOICES}")

EXTENSIONS: dict[str, Reader] = {
    "top_k": typed(Annotated[int, Meta(ge=-1, le=2**31)], "an integer of at least -1 (0 or -1: off)", top_k),
    "min_p": fraction,
    "repetition_penalty": typed(Repetition, "a number above 0 and up to 10"),
    "min_tokens": count,
    "stop_token_ids": typed(
        Annotated[list[TokenId], Meta(max_length=64)], "a list of up to 64 token ids", lambda _, ids: tuple(ids)
    ),
    "ignore_eos": flag,
    "chat_template_kwargs": typed(dict[str, Any], "an object", _template),
    "priority": typed(
        Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)], "a 32-bit integer (lower goes first)", lambda _, n: -n
    ),
    "bad_words": typed(list[str], "a list of words", _words),
    "allowed_token_ids": typed(
        Annotated[list[TokenId], Meta(min_length=1)], "a list of at least one token id", lambda _, ids: tuple(ids)
    ),
    "xtc_probability": fraction,
    "xtc_threshold": typed(Annotated[float, Meta(ge=0, le=0.5)], "a number from 0 to 0.5"),
    "include_stop_str_in_output": flag,
    "typical_p": refused("use `min_p` or `top_p`", unless=(0, 1)),
    "dry_multiplier": typed(Annotated[float, Meta(ge=0, le=100)], "a number from 0 to 100"),
    "dry_base": typed(Annotated[float, Meta(ge=1, le=10)], "a number from 1 to 10"),
    "dry_allowed_length": typed(Annotated[int, Meta(ge=1, le=2**31 - 1)], "an integer of at least 1"),
    "dry_penalty_last_n": typed(Annotated[int, Meta(ge=-1, le=2**31 - 1)], "an integer of at least -1"),
    "dry_sequence_breakers": typed(
        Annotated[list[Breaker], Meta(max_length=64)],
        "a list of up to 64 strings of 1 to 64 characters",
        lambda _, texts: tuple(texts),
    ),
    "reasoning_budget": count,
    "include_reasoning": flag,
    "cache_salt": typed(Name, "a string of up to 512 characters"),
    "keep_alive": keep_alive,
    "adapter": typed(Annotated[str, Meta(max_length=512)], "the name of an adapter, or an empty string"),
}
"""What servers of open models understand beside a protocol's own fields; taken by every protocol."""

SAMPLING: dict[str, Reader] = {
    "temperature": typed(Temperature, "a number from 0 to 2"),
    "top_p": fraction,
    "presence_penalty": penalty,
    "frequency_penalty": penalty,
    "logit_bias": typed(dict[TokenId, Bias], "an object of token ids with a number from -100 to 100 each"),
    "seed": typed(Seed, "a 64-bit integer", seed),
    "stop": stop,
    **EXTENSIONS,
}
"""OpenAI's sampling fields and the extensions."""

_SAME = ("model", "stream", "priority", "cache_salt", "keep_alive", "adapter")
DRY = ("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers")
_RULES = ("bad_words", "allowed_token_ids", "xtc_probability", "xtc_threshold", *DRY)
_PATCH = frozenset(SamplingPatch.__struct_fields__)


def rules(given: Mapping[str, Any]) -> TokenRules:
    """Which tokens the answer may hold."""
    renamed = {"allowed" if name == "allowed_token_ids" else name: given[name] for name in _RULES if name in given}
    return TokenRules(**renamed)


def patch(given: Mapping[str, Any], **more: Any) -> SamplingPatch:
    """The sampling among a request's values, with `more` where it is not None. Raises BadRequest."""
    values = {name: value for name, value in given.items() if name in _PATCH}
    values |= {name: value for name, value in more.items() if value is not None}
    if values.get("min_tokens", 0) > values.get("max_tokens", 2**53):
        raise BadRequest("`min_tokens` is larger than `max_tokens`", param="min_tokens")
    return SamplingPatch(**values)


def template(given: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The template's variables: what the client set by name, then `more` where it is not None."""
    return {**{name: v for name, v in more.items() if v is not None}, **given.get("chat_template_kwargs", {})}


def common(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a GenerateRequest that every protocol takes from fields of the same name."""
    same = {name: given[name] for name in _SAME if name in given}
    return {**same, "rules": rules(given), "shows_stop": given.get("include_stop_str_in_output", False)}


def logprobs(given: Mapping[str, Any]) -> int | None:
    """OpenAI's pair `logprobs` (a flag) and `top_logprobs`. Raises BadRequest."""
    if given.get("logprobs"):
        return int(given.get("top_logprobs", 0))
    if given.get("top_logprobs"):
        raise BadRequest("`top_logprobs` needs `logprobs`: true", param="top_logprobs")
    return None


def include_usage(given: Mapping[str, Any]) -> bool:
    """Whether a stream ends with its usage."""
    options: StreamOptions | None = given.get("stream_options")
    return bool(options and options.include_usage)


def continues(given: Mapping[str, Any]) -> bool:
    """`continue_final_message`, or its other form, `prefix` on the last message; and `add_generation_prompt`. Raises
    BadRequest where they contradict.
    """
    wanted = given.get("continue_final_message", given["messages"][-1].prefix)
    prompts = given.get("add_generation_prompt")
    if wanted and prompts:
        raise BadRequest(
            "`continue_final_message` and `add_generation_prompt` cannot both be true", param="continue_final_message"
        )
    if wanted and given["messages"][-1].role != "assistant":
        raise BadRequest(
            "`continue_final_message` needs an assistant message at the end", param="continue_final_message"
        )
    if not wanted and prompts is False:
        raise Unsupported(
            "`add_generation_prompt`: false needs `continue_final_message`: true", param="add_generation_prompt"
        )
    return bool(wanted)
