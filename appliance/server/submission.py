"""What an engine is given for one request: the decided values, and what the model's family says."""

from collections.abc import Mapping

import msgspec

from appliance.config.deployment import ModelSpec
from appliance.config.sampling import Decided
from appliance.vocab.request import GenerateRequest, Message
from appliance.vocab.spec import ChatPrompt, ModelInfo, Submission


def submission(model: ModelSpec, info: ModelInfo, asked: GenerateRequest, decided: Decided) -> Submission:
    """The submission of a chat request; its id is given when it is sent."""
    family = model.family
    return Submission(
        id=0,
        prompt=ChatPrompt(
            messages=tuple(_renamed(message, family.roles) for message in asked.messages),
            tools=asked.tools,
            template=model.template_text,
            kwargs=dict(decided.template),
            continue_final=asked.continue_final,
        ),
        sampling=decided.sampling,
        context=min(model.context, info.context),
        stop_tokens=family.stop_tokens,
        tool_dialect=family.tool_dialect,
        reasoning_dialect=family.reasoning_dialect,
    )


def _renamed(message: Message, roles: Mapping[str, str]) -> Message:
    role = roles.get(message.role, message.role)
    return message if role == message.role else msgspec.structs.replace(message, role=role)
