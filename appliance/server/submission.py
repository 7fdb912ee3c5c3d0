"""What a request asks of which model, and what its engine is given for it."""

from collections.abc import Mapping

import msgspec

from appliance.config.access import Key
from appliance.config.deployment import ModelSpec
from appliance.config.sampling import Decided
from appliance.control.keys import namespace, priority
from appliance.vocab.request import GenerateRequest, Message, TextPrompt, TokenPrompt
from appliance.vocab.spec import BACKGROUND, ChatPrompt, ModelInfo, Submission

GENERIC = "json"
"""The tool dialect of models without one of their own: told how to call in the system text."""


def submission(
    model: ModelSpec,
    info: ModelInfo,
    asked: GenerateRequest,
    decided: Decided,
    prompt: TextPrompt | TokenPrompt | None = None,
    key: Key | None = None,
    *,
    background: bool = False,
) -> Submission:
    """The submission of a request's messages, or of one of its prompts; its id is given when it is sent. One in the
    `background` goes behind all others.

    The answer to a raw prompt is raw text: nothing in it is looked for but its end.
    """
    family, sampling = model.family, decided.sampling
    if sampling.max_tokens is None:
        sampling = msgspec.structs.replace(sampling, max_tokens=asked.default_max_tokens)
    return Submission(
        id=0,
        prompt=chat_prompt(model, asked, decided) if prompt is None else prompt,
        sampling=sampling,
        context=min(model.context, info.context),
        namespace=namespace(key, asked.cache_salt, model.cache.share),
        stop_tokens=family.stop_tokens,
        tool_dialect=_tool_dialect(model, asked) if prompt is None else "none",
        reasoning_dialect=family.reasoning_dialect if prompt is None else "none",
        priority=priority(key, asked.priority) - (BACKGROUND if background else 0),
        tenant=key.name if key else "",
        grammar=asked.grammar,
        parallel_calls=asked.parallel_calls,
        adapter=decided.adapter,
        prediction=asked.prediction if prompt is None else "",
        rules=asked.rules,
    )


def _tool_dialect(model: ModelSpec, asked: GenerateRequest) -> str:
    native = model.family.tool_dialect
    return GENERIC if asked.tools and native == "none" else native


def chat_prompt(model: ModelSpec, asked: GenerateRequest, decided: Decided) -> ChatPrompt:
    """A request's messages as its model's template is given them."""
    return ChatPrompt(
        messages=tuple(_renamed(message, model.family.roles) for message in asked.messages),
        tools=asked.tools,
        template=model.template_text,
        kwargs=dict(decided.template),
        continue_final=asked.continue_final,
        recipe=bool(asked.tools) and model.family.tool_dialect in ("none", GENERIC),
        tool_dialect=_tool_dialect(model, asked),
        reasoning_dialect=model.family.reasoning_dialect,
    )


def _renamed(message: Message, roles: Mapping[str, str]) -> Message:
    role = roles.get(message.role, message.role)
    return message if role == message.role else msgspec.structs.replace(message, role=role)
