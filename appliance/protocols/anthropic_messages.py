"""`POST /v1/messages`: what a body asks for, one table row per field."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols import answer_form
from appliance.protocols.adapter import Decoded
from appliance.protocols.anthropic_blocks import Block, Talk, Turn, to_system, to_talk
from appliance.protocols.anthropic_changes import at_the_end
from appliance.protocols.anthropic_stream import MessageStream
from appliance.protocols.anthropic_tools import Choice, ToolParam, Tools, choice, to_tools
from appliance.protocols.fields import Reader, ignored, read_fields, refused, typed
from appliance.protocols.openai_tools import chosen
from appliance.protocols.sampling import (
    EXTENSIONS,
    Effort,
    common,
    flag,
    fraction,
    model_name,
    patch,
    positive,
    stop_list,
    template,
)
from appliance.protocols.turns import tidy
from appliance.vocab.request import GenerateRequest, Grammar, Message


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    display: str | None = None


class _Format(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _OutputConfig(msgspec.Struct):
    effort: Effort | None = None
    format: _Format | None = None


def _format(name: str, config: _OutputConfig) -> _OutputConfig:
    if config.format is not None and (config.format.type != "json_schema" or config.format.schema is None):
        key = "type" if config.format.type != "json_schema" else "schema"
        wanted = "must be 'json_schema'" if key == "type" else "is required"
        raise BadRequest(f"`{name}.format.{key}` {wanted}", param=f"{name}.format.{key}")
    return config


FIELDS: dict[str, Reader] = {
    "model": model_name,
    "messages": typed(list[Turn], "a list of messages", to_talk),
    "system": typed(str | list[Block], "a string or a list of text blocks", to_system),
    "max_tokens": positive,
    "stop_sequences": stop_list,
    "temperature": fraction,
    "top_p": fraction,
    **EXTENSIONS,
    **answer_form.EXTENSIONS,
    "tools": typed(list[ToolParam], "a list of tools", to_tools),
    "tool_choice": typed(Choice, "an object with a type"),
    "thinking": typed(_Thinking, "an object with a type"),
    "output_config": typed(_OutputConfig, "an object", _format),
    "stream": flag,
    "cache_control": typed(dict[str, Any], "an object"),
    # asking for these changes no answer of ours
    "betas": ignored,
    "container": ignored,
    "context_management": ignored,
    "diagnostics": ignored,
    "inference_geo": ignored,
    "metadata": ignored,
    "service_tier": ignored,
    "speed": ignored,
    "user_profile_id": ignored,
    "workspace_id": ignored,
    # asking for these would
    "mcp_servers": refused("this server calls no others", unless=([],)),
    "output_format": refused("use `output_config.format`"),
}
"""Every field we know, and how it is read. A field that is not here is listed in `GenerateRequest.ignored`."""


def decode(body: bytes, required: Iterable[str] = ("model", "max_tokens", "messages")) -> GenerateRequest:
    """What the body asks for. Raises BadRequest (400) naming the field, Unsupported for one we cannot honour.

    A last turn of the assistant's own words is continued.
    """
    given, unknown = read_fields(body, FIELDS, required)
    talk: Talk = given["messages"]
    tools = at_the_end(given.get("tools", Tools()), talk.changes)
    wanted: Choice | None = given.get("tool_choice")
    messages = _messages(given)
    return GenerateRequest(
        **common(given),
        messages=messages,
        tools=chosen(tools.shown, choice(wanted)),
        sampling=patch(given, stop=given.get("stop_sequences"), **_reasoning(given)),
        grammar=answer_form.form(given, _grammar(given.get("output_config"))),
        template=template(given, **_thinking(given)),
        continue_final=messages[-1].role == "assistant" and not messages[-1].tool_calls,
        parallel_calls=not (wanted and wanted.disable_parallel_tool_use),
        ignored=(*unknown, *tools.left_out),
    )


def decode_count(body: bytes) -> GenerateRequest:
    """The same without an answer: what `count_tokens` is asked."""
    return decode(body, ("model", "messages"))


def read(body: bytes) -> Decoded:
    """The request, and its answer's two forms."""
    return Decoded(decode(body), MessageStream, MessageStream)


def _messages(given: dict[str, Any]) -> tuple[Message, ...]:
    messages: tuple[Message, ...] = given["messages"].messages
    if given.get("cache_control"):  # of all that is there: what comes next begins behind it
        *before, last = messages
        messages = (*before, msgspec.structs.replace(last, mark=True))
    system: Message | None = given.get("system")
    if system is None or not system.content:
        return messages
    return tidy((system, *messages))


def _grammar(config: _OutputConfig | None) -> Grammar | None:
    if config is None or config.format is None or config.format.schema is None:
        return None
    return answer_form.schema("output_config.format.schema", config.format.schema)


def _reasoning(given: dict[str, Any]) -> dict[str, Any]:
    """How long the model may think, and whether the client wants to see it."""
    thinking: _Thinking = given.get("thinking") or _Thinking("")
    hidden = thinking.display == "omitted"
    return {"reasoning_budget": thinking.budget_tokens, "include_reasoning": False if hidden else None}


def _thinking(given: dict[str, Any]) -> dict[str, Any]:
    """The template's switches, where the client turned them."""
    thinking: _Thinking | None = given.get("thinking")
    config: _OutputConfig | None = given.get("output_config")
    return {
        "enable_thinking": None if thinking is None else thinking.type != "disabled",
        "reasoning_effort": None if config is None else config.effort,
    }
