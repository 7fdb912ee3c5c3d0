"""Prompts as their model's tokenizer sees them, asked of its engine."""

from appliance.config.deployment import ModelSpec
from appliance.control.handle import Counted
from appliance.server.context import Context
from appliance.vocab.request import TextPrompt, TokenPrompt
from appliance.vocab.spec import Prompt


async def counted(context: Context, model: ModelSpec, prompt: Prompt, *, detail: bool = False) -> Counted:
    """How many tokens a prompt has; with `detail` which, and their text. Loads the model where it is not.

    Raises what the template objects to, and what keeps the model from being loaded.
    """
    async with context.supervisor.acquire(model) as lease:
        return await lease.handle.count(prompt, detail=detail)


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
            return (await counted(context, model, prompt, detail=True)).text
