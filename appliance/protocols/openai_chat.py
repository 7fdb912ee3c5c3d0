"""`POST /v1/chat/completions`: what a body asks for, one table row per field."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest, Unsupported
from appliance.protocols.fields import Reader, check_depth, ignored, read_object, refused, typed
from appliance.protocols.openai_messages import ChatMessage, to_messages
from appliance.protocols.openai_tools import ToolChoice, ToolParam, chosen, to_tools
from appliance.vocab.request import GenerateRequest, SamplingPatch

MAX_STOP_STRINGS = 16
MAX_STOP_LENGTH = 256
MAX_CHOICES = 128

Name = Annotated[str, Meta(min_length=1, max_length=512)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Repetition = Annotated[float, Meta(gt=0, le=10)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


def _stop(name: str, value: str | list[str]) -> tuple[str, ...]:
    strings = (value,) if isinstance(value, str) else tuple(value)
    if len(strings) > MAX_STOP_STRINGS:
        raise BadRequest(f"`{name}` may hold at most {MAX_STOP_STRINGS} strings, got {len(strings)}", param=name)
    for at, string in enumerate(strings):
        if not 0 < len(string) <= MAX_STOP_LENGTH:
            place = name if isinstance(value, str) else f"{name}[{at}]"
            raise BadRequest(f"`{place}` must be 1 to {MAX_STOP_LENGTH} characters long", param=place)
    return strings


def _seed(name: str, value: int) -> int:
    return value & (2**63 - 1)


def _top_k(name: str, value: int) -> int:
    return max(0, value)


def _template(name: str, value: dict[str, Any]) -> dict[str, Any]:
    for reserved in ("messages", "tools", "add_generation_prompt", "continue_final_message", "tokenize"):
        if reserved in value:
            raise BadRequest(f"`{name}.{reserved}` is set by the server", param=f"{name}.{reserved}")
    return dict(check_depth(name, value))


_fraction = typed(Fraction, "a number from 0 to 1")
_penalty = typed(Penalty, "a number from -2 to 2")
_positive = typed(Positive, "an integer of at least 1")
_count = typed(Count, "an integer of at least 0")
_flag = typed(bool, "true or false")

FIELDS: dict[str, Reader] = {
    "model": typed(Name, "the name of a model"),
    "messages": typed(list[ChatMessage], "a list of messages", to_messages),
    # sampling
    "temperature": typed(Temperature, "a number from 0 to 2"),
    "top_p": _fraction,
    "top_k": typed(Annotated[int, Meta(ge=-1, le=2**31)], "an integer of at least -1 (0 or -1: off)", _top_k),
    "min_p": _fraction,
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "repetition_penalty": typed(Repetition, "a number above 0 and up to 10"),
    "logit_bias": typed(dict[TokenId, Bias], "an object of token ids with a number from -100 to 100 each"),
    "seed": typed(Seed, "a 64-bit integer", _seed),
    "max_tokens": _positive,
    "max_completion_tokens": _positive,
    "min_tokens": _count,
    "stop": typed(str | list[str], "a string or a list of strings", _stop),
    "stop_token_ids": typed(
        Annotated[list[TokenId], Meta(max_length=64)], "a list of up to 64 token ids", lambda _, ids: tuple(ids)
    ),
    "ignore_eos": _flag,
    # the answer's shape
    "n": typed(Annotated[int, Meta(ge=1, le=MAX_CHOICES)], f"an integer from 1 to {MAX_CHOICES}"),
    "logprobs": _flag,
    "top_logprobs": typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20"),
    "stream": _flag,
    "stream_options": typed(_StreamOptions, "an object"),
    # the prompt
    "tools": typed(list[ToolParam], "a list of tools", to_tools),
    "tool_choice": typed(str | ToolChoice, "'none', 'auto', 'required', a function or allowed_tools"),
    "parallel_tool_calls": _flag,
    "chat_template_kwargs": typed(dict[str, Any], "an object", _template),
    "reasoning_effort": typed(Effort, "one of none, minimal, low, medium, high, xhigh"),
    "continue_final_message": _flag,
    "add_generation_prompt": _flag,
    "user": typed(str, "a string"),
    # asking for these changes no answer of ours
    "metadata": ignored,
    "prediction": ignored,
    "prompt_cache_key": ignored,
    "prompt_cache_retention": ignored,
    "safety_identifier": ignored,
    "service_tier": ignored,
    "store": ignored,
    "verbosity": ignored,
    # asking for these would
    "audio": refused("answers are text"),
    "chat_template": refused("a request cannot bring its own template; set one in the deploy file"),
    "function_call": refused("use `tool_choice`", unless=("none", "auto")),
    "functions": refused("use `tools`", unless=([],)),
    "modalities": refused("answers are text", unless=(["text"],)),
    "response_format": refused("only {'type': 'text'} is available in this version", unless=({"type": "text"},)),
    "web_search_options": refused("this server does not search the web"),
}
"""Every field we know, and how it is read. A field that is not here is listed in `GenerateRequest.ignored`."""


def decode(body: bytes) -> GenerateRequest:
    """What the body asks for. Raises BadRequest (400) naming the field, Unsupported for one we cannot honour."""
    fields = read_object(body)
    given: dict[str, Any] = {}
    for name, raw in fields.items():
        if (reader := FIELDS.get(name)) and (value := reader(name, raw)) is not None:
            given[name] = value
    for name in ("model", "messages"):
        if name not in given:
            raise BadRequest(f"`{name}` is required", param=name)
    return GenerateRequest(
        model=given["model"],
        messages=given["messages"],
        tools=chosen(given.get("tools", ()), given.get("tool_choice"), given.get("parallel_tool_calls")),
        sampling=_sampling(given),
        logprobs=_logprobs(given),
        n=given.get("n", 1),
        template=_template_arguments(given),
        continue_final=_continues(given),
        user=given.get("user"),
        stream=given.get("stream", False),
        include_usage=_include_usage(given),
        ignored=tuple(name for name in fields if name not in FIELDS),
    )


_SAMPLING = frozenset(SamplingPatch.__struct_fields__)


def _sampling(given: dict[str, Any]) -> SamplingPatch:
    values = {name: value for name, value in given.items() if name in _SAMPLING}
    if "max_completion_tokens" in given:
        values["max_tokens"] = given["max_completion_tokens"]
    if values.get("min_tokens", 0) > values.get("max_tokens", 2**53):
        raise BadRequest("`min_tokens` is larger than `max_tokens`", param="min_tokens")
    return SamplingPatch(**values)


def _logprobs(given: dict[str, Any]) -> int | None:
    if given.get("logprobs"):
        return int(given.get("top_logprobs", 0))
    if given.get("top_logprobs"):
        raise BadRequest("`top_logprobs` needs `logprobs`: true", param="top_logprobs")
    return None


def _template_arguments(given: dict[str, Any]) -> dict[str, Any]:
    effort = {"reasoning_effort": given["reasoning_effort"]} if "reasoning_effort" in given else {}
    return {**effort, **given.get("chat_template_kwargs", {})}


def _continues(given: dict[str, Any]) -> bool:
    continues = given.get("continue_final_message", False)
    prompts = given.get("add_generation_prompt")
    if continues and prompts:
        raise BadRequest(
            "`continue_final_message` and `add_generation_prompt` cannot both be true", param="continue_final_message"
        )
    if continues and given["messages"][-1].role != "assistant":
        raise BadRequest(
            "`continue_final_message` needs an assistant message at the end", param="continue_final_message"
        )
    if not continues and prompts is False:
        raise Unsupported(
            "`add_generation_prompt`: false needs `continue_final_message`: true", param="add_generation_prompt"
        )
    return bool(continues)


def _include_usage(given: dict[str, Any]) -> bool:
    options: _StreamOptions | None = given.get("stream_options")
    return bool(options and options.include_usage)
