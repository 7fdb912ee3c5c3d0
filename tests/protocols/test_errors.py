"""Every error of ours in OpenAI's words."""

import json

import pytest

from appliance import errors
from appliance.protocols.errors import anthropic, error_body, error_headers, ollama

ERRORS: dict[str, tuple[errors.ApplianceError, int, str, str]] = {
    "bad value": (errors.BadRequest("no", param="n"), 400, "invalid_request_error", "invalid_value"),
    "unsupported": (errors.Unsupported("no", param="n"), 400, "invalid_request_error", "unsupported_parameter"),
    "too long": (errors.PromptTooLong("no", param="n"), 400, "invalid_request_error", "context_length_exceeded"),
    "unknown model": (errors.UnknownModel("no", param="n"), 404, "invalid_request_error", "model_not_found"),
    "unknown path": (errors.UnknownPath("no", param="n"), 404, "invalid_request_error", "not_found"),
    "wrong method": (errors.WrongMethod("no", param="n"), 405, "invalid_request_error", "method_not_allowed"),
    "slow body": (errors.SlowBody("no", param="n"), 408, "invalid_request_error", "request_timeout"),
    "packed body": (
        errors.UnsupportedEncoding("no", param="n"),
        415,
        "invalid_request_error",
        "unsupported_encoding",
    ),
    "large body": (errors.BodyTooLarge("no", param="n"), 413, "invalid_request_error", "body_too_large"),
    "overloaded": (errors.Overloaded("no", param="n"), 429, "rate_limit_error", "rate_limit_exceeded"),
    "bug": (errors.ApplianceError("no", param="n"), 500, "server_error", "internal_error"),
    "engine died": (errors.EngineDied("no", param="n"), 500, "server_error", "engine_died"),
    "disk full": (errors.NotStored("no", param="n"), 507, "server_error", "insufficient_storage"),
    "loading": (errors.Unavailable("no", param="n"), 503, "server_error", "unavailable"),
    "too late": (errors.TimedOut("no", param="n"), 504, "server_error", "timeout"),
}


@pytest.mark.parametrize(("error", "status", "kind", "code"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_has_all_four_keys(error: errors.ApplianceError, status: int, kind: str, code: str) -> None:
    assert error.status == status
    assert json.loads(error_body(error)) == {"error": {"message": "no", "type": kind, "param": "n", "code": code}}


HEADERS: dict[str, tuple[errors.ApplianceError, dict[str, str]]] = {
    "nothing to say": (errors.BadRequest("no"), {}),
    "whole seconds, rounded up": (errors.Overloaded("no", retry_after=1.2), {"retry-after": "2"}),
    "at least one second": (errors.Unavailable("no", retry_after=0.01), {"retry-after": "1"}),
    "a permanent failure is not retried": (errors.LoadFailed("no", permanent=True), {"x-should-retry": "false"}),
    "a passing failure is": (errors.LoadFailed("no", retry_after=5), {"retry-after": "5"}),
}


@pytest.mark.parametrize(("error", "headers"), HEADERS.values(), ids=HEADERS.keys())
def test_headers_say_whether_and_when_to_retry(error: errors.ApplianceError, headers: dict[str, str]) -> None:
    assert error_headers(error) == headers


NAMED: dict[str, tuple[errors.ApplianceError, str, str]] = {
    "named in the message": (
        errors.BadRequest("`stop`: no", param="stop"),
        "`stop_sequences`: no",
        "`options.stop`: no",
    ),
    "by the client's name": (
        errors.BadRequest("no", param="response_format"),
        "`output_config.format`: no",
        "`format`: no",
    ),
    "with its place": (errors.BadRequest("no", param="tools[0].name"), "`tools[0].name`: no", "`tools[0].name`: no"),
    "about nothing in the body": (errors.Overloaded("no"), "no", "no"),
}


@pytest.mark.parametrize(("error", "to_anthropic", "to_ollama"), NAMED.values(), ids=NAMED.keys())
def test_where_there_is_no_param_the_message_names_the_field(
    error: errors.ApplianceError, to_anthropic: str, to_ollama: str
) -> None:
    assert json.loads(anthropic(error, "req"))["error"]["message"] == to_anthropic
    assert json.loads(ollama(error, "req"))["error"] == to_ollama
