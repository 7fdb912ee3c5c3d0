"""What a request asks of which model, and what its engine is given for it."""

from collections.abc import Mapping

import msgspec

from appliance.config.deployment import Deployment, ModelSpec, Target
from appliance.config.sampling import Decided, find
from appliance.errors import BadRequest, Unsupported
from appliance.vocab.request import GenerateRequest, Message, TextPrompt, TokenPrompt
from appliance.vocab.spec import ChatPrompt, ModelInfo, Submission


def target_of(deployment: Deployment, asked: GenerateRequest) -> Target:
    """What a request's model stands for. Raises BadRequest for what the model or the deployment refuses."""
    if asked.ignored and deployment.server.unknown_fields == "reject":
        name = asked.ignored[0]
        raise BadRequest(f"unknown field `{name}` (server.unknown_fields is reject)", param=name)
    target = find(deployment, asked.model)
    if asked.tools and target.model.family.tool_dialect == "none":
        raise Unsupported(f"{target.model.name} has no way to call tools", param="tools")
    return target


def submission(
    model: ModelSpec,
    info: ModelInfo,
    asked: GenerateRequest,
    decided: Decided,
    prompt: TextPrompt | TokenPrompt | None = None,
) -> Submission:
    """The submission of a request's messages, or of one of its prompts; its id is given when it is sent.

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
        namespace=asked.cache_salt,
        stop_tokens=family.stop_tokens,
        tool_dialect=family.tool_dialect if prompt is None else "none",
        reasoning_dialect=family.reasoning_dialect if prompt is None else "none",
        priority=asked.priority,
        grammar=asked.grammar,
    )


def chat_prompt(model: ModelSpec, asked: GenerateRequest, decided: Decided) -> ChatPrompt:
    """A request's messages as its model's template is given them."""
    return ChatPrompt(
        messages=tuple(_renamed(message, model.family.roles) for message in asked.messages),
        tools=asked.tools,
        template=model.template_text,
        kwargs=dict(decided.template),
        continue_final=asked.continue_final,
    )


def _renamed(message: Message, roles: Mapping[str, str]) -> Message:
    role = roles.get(message.role, message.role)
    return message if role == message.role else msgspec.structs.replace(message, role=role)
