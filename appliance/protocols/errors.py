"""How an error is said to an OpenAI client: status, headers and body, in one place."""

import math

import msgspec

from appliance.errors import ApplianceError, LoadFailed, Overloaded

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


def error_headers(error: ApplianceError) -> dict[str, str]:
    """Headers that tell a client whether and when to try again."""
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        seconds = min(max(1, math.ceil(error.retry_after)), _LONGEST_RETRY_AFTER)
        headers["retry-after"] = str(seconds)
    if isinstance(error, LoadFailed) and error.permanent:
        headers["x-should-retry"] = "false"
    return headers
