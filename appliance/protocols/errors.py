"""How an error is said: the headers are the same for everyone, the body is that of the client's protocol."""

import math
import re
from collections.abc import Callable, Mapping

import msgspec

from appliance.errors import ApplianceError, LoadFailed, Overloaded, PromptTooLong

_CODES: dict[type[ApplianceError], str] = {Overloaded: "rate_limit_exceeded"}
"""Where OpenAI's own word differs from ours."""

_LONGEST_RETRY_AFTER = 3600


def error_type(status: int) -> str:
    """OpenAI's `error.type` of a status."""
    match status:
        case 429:
            return "rate_limit_error"
        case _ if status >= 500:
            return "server_error"
        case _:
            return "invalid_request_error"


def error_object(error: ApplianceError) -> dict[str, str | None]:
    """The value of the `error` key: all four keys, always."""
    return {
        "message": error.message,
        "type": error_type(error.status),
        "param": error.param,
        "code": _CODES.get(type(error), error.code),
    }


def error_body(error: ApplianceError) -> bytes:
    """The JSON body OpenAI's clients read `message`, `type`, `param` and `code` from."""
    return msgspec.json.encode({"error": error_object(error)})


Shape = Callable[[ApplianceError, str], bytes]
"""Takes an error and the id of its request, returns a JSON body."""


def openai(error: ApplianceError, request: str) -> bytes:
    """What OpenAI's clients read."""
    return error_body(error)


def responses(error: ApplianceError, request: str) -> bytes:
    """As OpenAI's, with the names of the Responses API."""
    return msgspec.json.encode({"error": responses_error(error)})


def anthropic(error: ApplianceError, request: str) -> bytes:
    """What Anthropic's clients read."""
    return msgspec.json.encode({"type": "error", "error": anthropic_error(error), "request_id": request})


def ollama(error: ApplianceError, request: str) -> bytes:
    """What Ollama's clients read."""
    return msgspec.json.encode({"error": named(error, _OLLAMA_NAMES)})


SHAPES: dict[str, Shape] = {"/v1/messages": anthropic, "/v1/responses": responses, "/api/": ollama}
"""By the beginning of a path; everything else is OpenAI's."""


def shape_of(path: str, headers: Mapping[str, str]) -> Shape:
    """In whose words an error at this path is said."""
    shape = next((shape for start, shape in SHAPES.items() if path.startswith(start)), openai)
    return anthropic if shape is openai and "anthropic-version" in headers else shape


_RESPONSES_NAMES = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
_ANTHROPIC_NAMES = {"stop": "stop_sequences", "response_format": "output_config.format"}
_OLLAMA_NAMES = {
    "max_tokens": "options.num_predict",
    "repetition_penalty": "options.repeat_penalty",
    "response_format": "format",
    "reasoning_effort": "think",
    **{name: f"options.{name}" for name in ("temperature", "top_p", "top_k", "min_p", "seed", "stop",
                                            "presence_penalty", "frequency_penalty", "logit_bias")},
}  # fmt: skip
"""What a protocol calls the fields that rules of the deployment and engines know by another name."""

_FIELD = re.compile(r"`(\w+)`")


def renamed(message: str, names: Mapping[str, str]) -> str:
    """The message with fields called as the client calls them."""
    return _FIELD.sub(lambda found: f"`{names.get(found[1], found[1])}`", message)


def named(error: ApplianceError, names: Mapping[str, str]) -> str:
    """The message for a protocol whose errors have no `param`: the field is named in it, as the client calls it."""
    message = renamed(error.message, names)
    field, dot, below = (error.param or "").partition(".")
    said = names.get(field, field)
    # How a prompt that is too long is said is read by programs.
    if not field or said in message or isinstance(error, PromptTooLong):
        return message
    return f"`{said if said != field else field + dot + below}`: {message}"


def responses_error(error: ApplianceError) -> dict[str, str | None]:
    """The value of the `error` key for a client of the Responses API."""
    said, names = error_object(error), _RESPONSES_NAMES
    param = names.get(error.param or "", error.param)
    return {**said, "message": renamed(error.message, names), "param": param}


_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_TOO_LONG = re.compile(r"context length is (?P<context>\d+) tokens.*resulted in (?P<prompt>\d+) tokens")


def anthropic_error(error: ApplianceError) -> dict[str, str]:
    """Anthropic's error: agents know by the wording that a prompt has become too long."""
    other = "api_error" if error.status >= 500 else "invalid_request_error"
    message = named(error, _ANTHROPIC_NAMES)
    if isinstance(error, PromptTooLong):
        counts = _TOO_LONG.search(message)
        told = f"{counts['prompt']} tokens > {counts['context']} maximum" if counts else message
        message = f"prompt is too long: {told}"
    return {"type": _ANTHROPIC_TYPES.get(error.status, other), "message": message}


def error_headers(error: ApplianceError) -> dict[str, str]:
    """Headers that tell a client whether and when to try again."""
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        seconds = min(max(1, math.ceil(error.retry_after)), _LONGEST_RETRY_AFTER)
        headers["retry-after"] = str(seconds)
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, LoadFailed) and error.permanent:
        headers["x-should-retry"] = "false"
    return headers
