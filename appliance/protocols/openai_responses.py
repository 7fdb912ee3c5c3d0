"""`POST /v1/responses`: what a body asks for, one table row per field."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest, UnknownPrevious
from appliance.protocols import answer_form
from appliance.protocols.adapter import Decoded
from appliance.protocols.fields import Reader, check_depth, ignored, read_fields, refused, typed
from appliance.protocols.openai_tools import chosen
from appliance.protocols.responses_items import to_items, to_messages
from appliance.protocols.responses_stream import Asked, Kept, ResponseStream, response_of
from appliance.protocols.responses_tools import Choice, ToolParam, Tools, choice, to_tools
from appliance.protocols.sampling import (
    SAMPLING,
    Effort,
    common,
    flag,
    model_name,
    patch,
    positive,
    template,
    text,
)
from appliance.protocols.turns import tidy
from appliance.vocab.request import GenerateRequest, Grammar, Message

Recall = Callable[[str], Kept | None]
"""The kept response of an id."""

_LOGPROBS = "message.output_text.logprobs"


class _Reasoning(msgspec.Struct):
    effort: Effort | None = None
    summary: str | None = None


class _Format(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _Text(msgspec.Struct):
    format: _Format | None = None
    verbosity: str | None = None


def _text_config(name: str, config: _Text) -> _Text:
    match config.format:
        case None | _Format(type="text" | "json_object") | _Format(type="json_schema", schema=dict()):
            return config
        case _Format(type="json_schema"):
            raise BadRequest(f"`{name}.format.schema` is required", param=f"{name}.format.schema")
        case _:
            raise BadRequest(
                f"`{name}.format.type` must be text, json_object or json_schema", param=f"{name}.format.type"
            )


FIELDS: dict[str, Reader] = {
    "model": model_name,
    "input": typed(str | list[dict[str, Any]], "a string or a list of items", to_items),
    "instructions": text,
    **SAMPLING,
    "max_output_tokens": positive,
    "top_logprobs": typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20"),
    "include": typed(list[str], "a list of strings"),
    "reasoning": typed(_Reasoning, "an object"),
    "text": typed(_Text, "an object", _text_config),
    **answer_form.EXTENSIONS,
    "tools": typed(list[ToolParam], "a list of tools", to_tools),
    "tool_choice": typed(str | Choice, "'none', 'auto', 'required', a tool or allowed_tools"),
    "parallel_tool_calls": flag,
    "previous_response_id": text,
    "store": flag,
    "background": flag,
    "stream": flag,
    "metadata": typed(dict[str, Any], "an object", check_depth),
    "truncation": typed(Literal["auto", "disabled"], "'auto' or 'disabled'"),
    "user": text,
    # asking for these changes no answer of ours
    "client_metadata": ignored,
    "context_management": ignored,
    "max_tool_calls": ignored,
    "moderation": ignored,
    "prompt_cache_key": ignored,
    "prompt_cache_options": ignored,
    "prompt_cache_retention": ignored,
    "safety_identifier": ignored,
    "service_tier": ignored,
    "stream_options": ignored,
    # asking for these would
    "conversation": refused("use `previous_response_id`"),
    "prompt": refused("this server keeps no prompts"),
}
"""Every field we know, and how it is read. A field that is not here is listed in `GenerateRequest.ignored`."""

_ECHOED: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "top_logprobs": 0,
    "truncation": "disabled",
    "user": None,
}
"""Fields an answer repeats, and what it says where they were not sent."""


def decode(body: bytes, recall: Recall) -> GenerateRequest:
    """What the body asks for. Raises BadRequest (400) naming the field, Unsupported for one we cannot honour."""
    return _request(*_read(body, recall), recall)


def read(body: bytes, recall: Recall) -> Decoded:
    """The request, and its answer's two forms."""
    given, unknown = _read(body, recall)
    request = _request(given, unknown, recall)
    tools: Tools = given.get("tools", Tools())
    asked = Asked(
        echo=_echo(body),
        items=given["input"],
        history=_history(given, recall),
        callees=tools.callees,
        logprobs=request.logprobs is not None,
        size=len(body),
        replays=request.stream and given.get("background", False),
        summary=given.get("reasoning", _Reasoning()).summary not in (None, "none"),
    )
    said = partial(ResponseStream, asked=asked)
    return Decoded(request, said, said, background=given.get("background", False))


def _read(body: bytes, recall: Recall) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields and the names of those we do not know; items that are referred to stand where they are meant."""
    given, unknown = read_fields(body, FIELDS, ("model", "input"))
    given["input"] = [_meant(f"input[{at}]", item, recall) for at, item in enumerate(given["input"])]
    return given, unknown


def _meant(place: str, item: dict[str, Any], recall: Recall) -> dict[str, Any]:
    if item["type"] != "item_reference":
        return item
    id = item.get("id")
    if not isinstance(id, str):
        raise BadRequest(f"`{place}.id` is required", param=f"{place}.id")
    kept = recall(response_of(id))
    items = (*kept.response["output"], *kept.items) if kept is not None else ()
    found: dict[str, Any] | None = next((each for each in items if each["id"] == id), None)
    if found is None:
        raise BadRequest(f"`{place}.id`: no item {id[:64]!r} is kept", param=f"{place}.id")
    return found


def _check_background(given: dict[str, Any]) -> None:
    """Raises BadRequest for what cannot be made while nobody waits."""
    if not given.get("background"):
        return
    if not given.get("store", True):
        raise BadRequest("`background` needs `store`: what is not kept cannot be asked for", param="background")


def cancelled(id: str, model: str, created: int) -> dict[str, Any]:
    """What is said of a response whose cancellation was just asked for."""
    said = {"id": id, "object": "response", "created_at": created, "status": "cancelled", "error": None}
    return {**said, "incomplete_details": None, "model": model, "output": [], **_ECHOED, "usage": None}


def _request(given: dict[str, Any], unknown: tuple[str, ...], recall: Recall) -> GenerateRequest:
    _check_background(given)
    tools: Tools = given.get("tools", Tools())
    reasoning: _Reasoning = given.get("reasoning", _Reasoning())
    instructions = given.get("instructions")
    system = (Message(role="system", content=instructions),) if instructions else ()
    return GenerateRequest(
        **common(given),
        messages=tidy((*system, *_history(given, recall))),
        tools=chosen(tools.shown, choice(given.get("tool_choice"))),
        sampling=patch(given, max_tokens=given.get("max_output_tokens")),
        logprobs=given.get("top_logprobs", 0) if _LOGPROBS in given.get("include", ()) else None,
        grammar=answer_form.form(given, _grammar(given.get("text", _Text()).format)),
        template=template(given, reasoning_effort=reasoning.effort),
        parallel_calls=given.get("parallel_tool_calls", True),
        user=given.get("user"),
        truncates=given.get("truncation") == "auto",
        ignored=(*unknown, *tools.left_out),
    )


def _grammar(wanted: _Format | None) -> Grammar | None:
    match wanted:
        case _Format(type="json_object"):
            return Grammar("json_object", "", "text.format")
        case _Format(type="json_schema", schema=dict() as schema):
            return answer_form.schema("text.format.schema", schema)
        case _:
            return None


def _history(given: dict[str, Any], recall: Recall) -> tuple[Message, ...]:
    """All turns up to the answer; instructions are those of one call and are not among them."""
    before: tuple[Message, ...] = ()
    if (id := given.get("previous_response_id")) is not None:
        if (kept := recall(id)) is None:
            raise UnknownPrevious(f"no response {id[:64]!r} is kept", param="previous_response_id")
        before = kept.history
    return (*before, *to_messages("input", given["input"]))


def _echo(body: bytes) -> dict[str, Any]:
    sent = msgspec.json.decode(body)
    return {name: otherwise if sent.get(name) is None else sent[name] for name, otherwise in _ECHOED.items()}
