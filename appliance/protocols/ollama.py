"""Ollama's `/api/chat` and `/api/generate`: what a body asks for, one table row per field."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols import answer_form
from appliance.protocols.adapter import Decoded
from appliance.protocols.fields import Reader, ignored, read_fields, refused, typed
from appliance.protocols.ollama_messages import ChatMessage, to_messages
from appliance.protocols.ollama_stream import Lines
from appliance.protocols.openai_tools import ToolParam, to_tools
from appliance.protocols.sampling import (
    EXTENSIONS,
    Fraction,
    Name,
    Penalty,
    Repetition,
    Seed,
    Temperature,
    TokenId,
    common,
    flag,
    logprobs,
    patch,
    seed,
    stop_strings,
    template,
    text,
    top_k,
)
from appliance.vocab.request import GenerateRequest, Grammar, Message, SamplingPatch, TextPrompt

LATEST = ":latest"
"""The tag clients put behind every name without one."""


class _Options(msgspec.Struct):
    """The options that mean something here; others tune an engine of Ollama's and are passed over."""

    temperature: Temperature | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31)] | None = None
    min_p: Fraction | None = None
    seed: Seed | None = None
    num_predict: Annotated[int, Meta(ge=-2, le=2**53)] | None = None
    stop: list[str] | None = None
    repeat_penalty: Repetition | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[TokenId, float] | None = None


def _sampling(name: str, options: _Options) -> SamplingPatch:
    limit = options.num_predict
    try:
        stop = None if options.stop is None else stop_strings("stop", options.stop)
    except BadRequest as error:
        raise BadRequest(f"`{name}`: {error.message}", param=f"{name}.{error.param}") from error
    return patch(
        {},
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=None if options.top_k is None else top_k("top_k", options.top_k),
        min_p=options.min_p,
        seed=None if options.seed is None else seed("seed", options.seed),
        # Below 0 is as long as the model likes.
        max_tokens=None if limit is None or limit < 0 else limit,
        stop=stop,
        repetition_penalty=options.repeat_penalty,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        logit_bias=options.logit_bias,
    )


def _format(name: str, wanted: Any) -> Grammar | None:
    match wanted:
        case "":
            return None
        case "json":
            return Grammar("json_object", "", name)
        case dict():
            return answer_form.schema(name, wanted)
        case _:
            raise BadRequest(f"`{name}` must be 'json' or a JSON schema", param=name)


_COMMON: dict[str, Reader] = {
    "model": typed(Name, "the name of a model", lambda _, name: name.removesuffix(LATEST)),
    "options": typed(_Options, "an object", _sampling),
    "format": typed(str | dict[str, Any], "'json' or a JSON schema", _format),
    "think": typed(bool | Literal["low", "medium", "high"], "true, false, 'low', 'medium' or 'high'"),
    "logprobs": flag,
    "top_logprobs": typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20"),
    "stream": flag,
    "truncate": flag,
    "shift": ignored,
    # what every protocol takes, `keep_alive` among it
    **EXTENSIONS,
    **answer_form.EXTENSIONS,
}

CHAT: dict[str, Reader] = {
    **_COMMON,
    "messages": typed(list[ChatMessage], "a list of messages", to_messages),
    "tools": typed(list[ToolParam], "a list of tools", to_tools),
}
"""The fields of `/api/chat`."""

GENERATE: dict[str, Reader] = {
    **_COMMON,
    "prompt": text,
    "system": text,
    "raw": flag,
    "context": refused("send the conversation to /api/chat", unless=([],)),
    "images": refused("this model takes text only", unless=([],)),
    "suffix": text,
    "template": refused("a request cannot bring its own template; set one in the deploy file", unless=("",)),
    "height": ignored,
    "steps": ignored,
    "width": ignored,
}
"""The fields of `/api/generate`."""


def decode_chat(body: bytes) -> GenerateRequest:
    """What a chat body asks for. Raises BadRequest naming the field, Unsupported for one we cannot honour."""
    given, unknown = read_fields(body, CHAT, ("model",))
    messages: tuple[Message, ...] = given.get("messages", ())
    if not messages:
        return _load(given, unknown)
    return _request(
        given,
        unknown,
        messages=messages,
        tools=given.get("tools", ()),
        continue_final=messages[-1].role == "assistant" and not messages[-1].tool_calls,
    )


def decode_generate(body: bytes) -> GenerateRequest:
    """What a generate body asks for. Raises BadRequest naming the field, Unsupported for one we cannot honour."""
    given, unknown = read_fields(body, GENERATE, ("model",))
    if not (prompt := given.get("prompt")):
        return _load(given, unknown)
    if suffix := given.get("suffix"):
        return _request(given, unknown, prompts=(TextPrompt(text=prompt, suffix=suffix),))
    if given.get("raw"):
        return _request(given, unknown, prompts=(TextPrompt(text=prompt),))
    system = (Message(role="system", content=given["system"]),) if given.get("system") else ()
    return _request(given, unknown, messages=(*system, Message(role="user", content=prompt)))


def read_chat(body: bytes) -> Decoded:
    """The request, and its answer's two forms."""
    return _decoded(decode_chat(body), chat=True)


def read_generate(body: bytes) -> Decoded:
    """The request, and its answer's two forms."""
    return _decoded(decode_generate(body), chat=False)


def _decoded(asked: GenerateRequest, *, chat: bool) -> Decoded:
    word = "unload" if asked.keep_alive == 0 else "load"
    loads = word if asked.sampling.max_tokens == 0 else ""
    said = partial(Lines, chat=chat, loads=loads, logprobs=asked.logprobs is not None)
    return Decoded(asked, said, said, unloads=loads == "unload")


def _load(given: dict[str, Any], unknown: tuple[str, ...]) -> GenerateRequest:
    """Asking for nothing loads the model."""
    nothing = {**given, "options": SamplingPatch(max_tokens=0)}
    return _request(nothing, unknown, messages=(Message(role="user", content=""),))


def _request(given: dict[str, Any], unknown: tuple[str, ...], **more: Any) -> GenerateRequest:
    options: SamplingPatch = given.get("options", SamplingPatch())
    return GenerateRequest(
        **{"stream": True, **common(given)},
        sampling=patch(given, **options.given()),
        grammar=answer_form.form(given, given.get("format")),
        template=template(given, **_thinking(given.get("think"))),
        logprobs=logprobs(given),
        truncates=given.get("truncate", False),
        ignored=unknown,
        **more,
    )


def _thinking(think: bool | str | None) -> dict[str, Any]:
    match think:
        case str():
            return {"enable_thinking": True, "reasoning_effort": think}
        case _:
            return {"enable_thinking": think}
