"""Prompts as their model's tokenizer sees them, asked of an engine: counted, tokenized, rendered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from sanic import HTTPResponse, Request

from appliance.config.deployment import ModelSpec
from appliance.config.peered import is_peer
from appliance.config.sampling import decide
from appliance.control.handle import Counted
from appliance.errors import EngineDied, Unavailable, Unsupported
from appliance.protocols import anthropic_messages, openai_chat, openai_responses, tokens
from appliance.protocols.fields import Reader
from appliance.server.adapters import alone
from appliance.server.admission import in_line
from appliance.server.body import read_body
from appliance.server.caller import caller_of
from appliance.server.context import Context
from appliance.server.edge import json_response
from appliance.server.names import counted_as
from appliance.server.routing import route_of
from appliance.server.submission import chat_prompt
from appliance.server.tally import tallied
from appliance.vocab.request import GenerateRequest, TextPrompt, TokenPrompt
from appliance.vocab.spec import Prompt

Say = Callable[[GenerateRequest, Counted, int], dict[str, Any]]
"""The answer, from the question, what the engine counted, and the model's context in tokens."""


@dataclass(frozen=True, slots=True)
class Question:
    """An endpoint about a prompt; with `detail` its answer needs the ids or the text.

    `text` is what the endpoint is for, `fields` its body's with those it cannot do without.
    """

    text: str
    fields: Mapping[str, Reader]
    required: tuple[str, ...]
    decode: Callable[[bytes, Context], GenerateRequest]
    say: Say
    detail: bool = True


def _responses(body: bytes, context: Context) -> GenerateRequest:
    return openai_responses.decode(body, context.responses.recall)


_TOKENIZE = Question(
    "The token ids of a text, or of messages.",
    {**openai_chat.FIELDS, **tokens.TOKENIZE},
    ("model",),
    alone(tokens.decode_tokenize),
    lambda asked, counted, context: tokens.tokenized(counted.tokens, context),
)
_DETOKENIZE = Question(
    "The text of token ids.",
    tokens.DETOKENIZE,
    ("model", "tokens"),
    alone(tokens.decode_detokenize),
    lambda asked, counted, context: tokens.detokenized(counted.text),
)

QUESTIONS: dict[str, Question] = {
    "/tokenize": _TOKENIZE,
    "/v1/tokenize": _TOKENIZE,
    "/detokenize": _DETOKENIZE,
    "/v1/detokenize": _DETOKENIZE,
    "/v1/chat/completions/render": Question(
        "The prompt as the model sees it, and its tokens.",
        openai_chat.FIELDS,
        ("model", "messages"),
        alone(openai_chat.decode),
        lambda asked, counted, context: tokens.rendered(asked.model, counted.text, counted.tokens),
    ),
    "/v1/messages/count_tokens": Question(
        "How many tokens a message's prompt has.",
        anthropic_messages.FIELDS,
        ("model", "messages"),
        alone(anthropic_messages.decode_count),
        lambda asked, counted, context: {"input_tokens": counted.count},
        detail=False,
    ),
    "/v1/responses/input_tokens": Question(
        "How many tokens a response's prompt has.",
        openai_responses.FIELDS,
        ("model", "input"),
        _responses,
        lambda asked, counted, context: {"object": "response.input_tokens", "input_tokens": counted.count},
        detail=False,
    ),
}


async def answer(request: Request, context: Context, endpoint: str, question: Question) -> HTTPResponse:
    """Answer one of them. Raises ApplianceError."""
    request.ctx.tallied = True
    with tallied(context, endpoint) as tally:
        if context.draining:
            raise Unavailable("the server is shutting down", retry_after=5)
        with in_line(context, request.ctx.key, request.headers.getone("content-length", None)):
            body = await read_body(request, context.running.deployment.server)
        deployment = context.running.deployment
        asked = question.decode(body, context)
        target = route_of(caller_of(request), context, deployment, asked).target
        tally.model = counted_as(context, deployment, target.model)
        decided = decide(deployment, target, asked, seed=0)
        prompt = asked.prompts[0] if asked.prompts else chat_prompt(target.model, asked, decided)
        counted, room = await count(context, target.model, prompt, detail=question.detail)
        tally.status = 200
        return json_response(msgspec.json.encode(question.say(asked, counted, room)))


async def count(context: Context, model: ModelSpec, prompt: Prompt, *, detail: bool) -> tuple[Counted, int]:
    """What a prompt is in tokens, and the model's context. No weights are loaded for it.

    Raises what the template objects to, what keeps the model's files from being read, and Unsupported for a peer's
    model: its tokenizer is not here.
    """
    if is_peer(model):
        raise Unsupported(f"the prompts of `{model.name}` are not counted here: another server has it", param="model")
    try:
        return await _counted(context, model, prompt, detail)
    except EngineDied:  # an engine that ended meanwhile is replaced; two in a row are this prompt's doing
        return await _counted(context, model, prompt, detail)


async def _counted(context: Context, model: ModelSpec, prompt: Prompt, detail: bool) -> tuple[Counted, int]:
    async with context.supervisor.reading(model) as handle:
        counted = await handle.count(prompt, detail=detail)
        assert handle.info is not None
        return counted, min(model.context, handle.info.context)


async def texts_of(
    context: Context, model: ModelSpec, prompts: tuple[TextPrompt | TokenPrompt, ...]
) -> tuple[str, ...]:
    """The texts of prompts; only those that are ids need the tokenizer."""
    return tuple([await _text(context, model, prompt) for prompt in prompts])


async def _text(context: Context, model: ModelSpec, prompt: TextPrompt | TokenPrompt) -> str:
    match prompt:
        case TextPrompt(text=text):
            return text
        case TokenPrompt():
            counted, _ = await count(context, model, prompt, detail=True)
            return counted.text
