"""`/tokenize`, `/detokenize` and `/v1/chat/completions/render`: what a body asks for, and what it is told."""

from typing import Annotated, Any

from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols import openai_chat
from appliance.protocols.fields import Reader, ignored, read_fields, read_object, typed
from appliance.protocols.sampling import flag, model_name, text
from appliance.vocab.request import GenerateRequest, TextPrompt, TokenPrompt

_Id = Annotated[int, Meta(ge=0, le=2**53)]

TOKENIZE: dict[str, Reader] = {
    "model": model_name,
    "prompt": text,
    "add_special_tokens": flag,
    "return_token_strs": ignored,
}
"""For a raw text; messages are asked with the fields of chat completions."""

DETOKENIZE: dict[str, Reader] = {
    "model": model_name,
    "tokens": typed(list[_Id], "a list of token ids", lambda _, ids: tuple(ids)),
}


def decode_tokenize(body: bytes) -> GenerateRequest:
    """A text or messages to be counted. Raises BadRequest."""
    if "messages" in read_object(body):
        return openai_chat.decode(body)
    given, unknown = read_fields(body, TOKENIZE, ("model",))
    if "prompt" not in given:
        raise BadRequest("`prompt` or `messages` is required", param="prompt")
    prompt = TextPrompt(text=given["prompt"], special=given.get("add_special_tokens", True))
    return GenerateRequest(model=given["model"], prompts=(prompt,), ignored=unknown)


def decode_detokenize(body: bytes) -> GenerateRequest:
    """Token ids whose text is wanted. Raises BadRequest."""
    given, unknown = read_fields(body, DETOKENIZE, ("model", "tokens"))
    return GenerateRequest(model=given["model"], prompts=(TokenPrompt(tokens=given["tokens"]),), ignored=unknown)


def tokenized(tokens: tuple[int, ...], context: int) -> dict[str, Any]:
    """The ids, and how many tokens a prompt and its answer may have."""
    return {"tokens": tokens, "count": len(tokens), "max_model_len": context, "token_strs": None}


def detokenized(text: str) -> dict[str, Any]:
    return {"prompt": text}


def rendered(model: str, text: str, tokens: tuple[int, ...]) -> dict[str, Any]:
    """The prompt as the model sees it."""
    return {
        "object": "chat.completion.prompt",
        "model": model,
        "prompt": text,
        "prompt_tokens": len(tokens),
        "tokens": tokens,
    }
