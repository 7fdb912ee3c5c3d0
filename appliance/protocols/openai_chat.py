"""`POST /v1/chat/completions`: what a body asks for, one table row per field."""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols.adapter import Decoded
from appliance.protocols.answer_form import FORMS, form
from appliance.protocols.fields import Reader, ignored, read_fields, refused, typed
from appliance.protocols.openai_calls import CallForm
from appliance.protocols.openai_messages import ChatMessage, to_messages
from appliance.protocols.openai_prediction import Prediction, predicted
from appliance.protocols.openai_stream import Fold, StreamEncoder
from appliance.protocols.openai_tools import (
    Function,
    Named,
    Offered,
    ToolChoice,
    ToolParam,
    chosen,
    from_functions,
    named,
    offered,
)
from appliance.protocols.prompt_logprobs import PROMPT_LOGPROBS, listed, scores_asked
from appliance.protocols.sampling import (
    SAMPLING,
    StreamOptions,
    choices,
    common,
    continues,
    count,
    effort,
    flag,
    include_usage,
    logprobs,
    model_name,
    patch,
    positive,
    template,
    text,
)
from appliance.vocab.request import GenerateRequest, Tool

FIELDS: dict[str, Reader] = {
    "model": model_name,
    "messages": typed(list[ChatMessage], "a list of messages", to_messages),
    **SAMPLING,
    "max_tokens": positive,
    "max_completion_tokens": positive,
    # the answer's shape
    **FORMS,
    "n": choices,
    "logprobs": flag,
    "top_logprobs": typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20"),
    "prompt_logprobs": PROMPT_LOGPROBS,
    "stream": flag,
    "stream_options": typed(StreamOptions, "an object"),
    # the prompt
    "tools": typed(list[ToolParam], "a list of tools", offered),
    "tool_choice": typed(str | ToolChoice, "'none', 'auto', 'required', a tool or allowed_tools"),
    "parallel_tool_calls": flag,
    # what came before tools
    "functions": typed(list[Function], "a list of functions", from_functions),
    "function_call": typed(str | Named, "'none', 'auto' or an object with a name"),
    "reasoning_effort": effort,
    # other names of `reasoning_budget`
    "reasoning_max_tokens": count,
    "thinking_token_budget": count,
    "continue_final_message": flag,
    "add_generation_prompt": flag,
    "prediction": typed(Prediction, "an object of type content", predicted),
    "user": text,
    # asking for these changes no answer of ours
    "metadata": ignored,
    "prompt_cache_key": ignored,
    "prompt_cache_retention": ignored,
    "safety_identifier": ignored,
    "service_tier": ignored,
    "store": ignored,
    "verbosity": ignored,
    # asking for these would
    "audio": refused("answers are text"),
    "chat_template": refused("a request cannot bring its own template; set one in the deploy file"),
    "echo": refused("answers hold no prompt", unless=(False,)),
    "modalities": refused("answers are text", unless=(["text"],)),
    "web_search_options": refused("this server does not search the web"),
}
"""Every field we know, and how it is read. A field that is not here is listed in `GenerateRequest.ignored`."""


def decode(body: bytes) -> GenerateRequest:
    """What the body asks for. Raises BadRequest (400) naming the field, Unsupported for one we cannot honour."""
    given, unknown = read_fields(body, FIELDS, ("model", "messages"))
    return _request(given, unknown)


def _request(given: dict[str, Any], unknown: tuple[str, ...]) -> GenerateRequest:
    if given.get("functions") and given.get("tools", Offered()).shown:
        raise BadRequest("`functions` and `tools` cannot both be given", param="functions")
    shared = common(given)
    if (scores := scores_asked(given)) is not None:
        shared["rules"] = msgspec.structs.replace(shared["rules"], scores=scores)
    return GenerateRequest(
        **shared,
        messages=given["messages"],
        tools=_tools(given),
        sampling=patch(given, max_tokens=given.get("max_completion_tokens"), reasoning_budget=_budget(given)),
        logprobs=logprobs(given),
        grammar=form(given),
        n=given.get("n", 1),
        template=template(given, reasoning_effort=given.get("reasoning_effort")),
        continue_final=continues(given),
        prediction=given.get("prediction") or "",
        user=given.get("user"),
        include_usage=include_usage(given),
        parallel_calls=given.get("parallel_tool_calls", True) and not given.get("functions"),
        ignored=unknown,
    )


def _budget(given: dict[str, Any]) -> int | None:
    """The tightest of the names it has."""
    names = ("reasoning_budget", "reasoning_max_tokens", "thinking_token_budget")
    return min((given[name] for name in names if name in given), default=None)


def read(body: bytes) -> Decoded:
    """The request, and its answer's two forms."""
    given, unknown = read_fields(body, FIELDS, ("model", "messages"))
    asked = _request(given, unknown)
    calls = CallForm(bool(given.get("functions")), given.get("tools", Offered()).custom)
    return Decoded(
        asked,
        lambda answer: StreamEncoder(answer, calls),
        lambda answer: Fold(
            answer,
            calls,
            logprobs=asked.logprobs is not None,
            scores=None if asked.rules.scores is None else partial(listed, most=asked.rules.scores),
        ),
    )


def _tools(given: dict[str, Any]) -> tuple[Tool, ...]:
    if functions := given.get("functions"):
        wanted = given.get("function_call")
        return chosen(functions, named(wanted.name) if isinstance(wanted, Named) else wanted)
    return chosen(given.get("tools", Offered()).shown, given.get("tool_choice"))
