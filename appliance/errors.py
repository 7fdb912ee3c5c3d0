"""The one hierarchy of errors: each says its HTTP status, a stable code, a safe message and whose fault it is.

Messages are shown to clients, so they never hold secrets, prompts or paths the client did not send.
"""

from enum import StrEnum
from typing import ClassVar


class Fault(StrEnum):
    """Who has to change something for the error to go away."""

    CLIENT = "client"
    CONFIG = "config"
    ENGINE = "engine"
    BUG = "bug"


class ApplianceError(Exception):
    """Base of everything we raise on purpose.

    `param` names the request field at fault (OpenAI's `error.param`), `retry_after` is in seconds.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    fault: ClassVar[Fault] = Fault.BUG

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after


class BadRequest(ApplianceError):
    """The request cannot be understood or asks for something out of range."""

    status = 400
    code = "invalid_value"
    fault = Fault.CLIENT


class Unsupported(BadRequest):
    """A field we know, asking for something this version cannot honour."""

    code = "unsupported_parameter"


class PolicyConflict(BadRequest):
    """The profile the request chose cannot be combined with the rules of the model."""

    code = "policy_conflict"


class PromptTooLong(BadRequest):
    """The prompt does not fit the model's context."""

    code = "context_length_exceeded"


class TemplateFailed(BadRequest):
    """The chat template refused these messages; carries the template's own words."""

    code = "template_error"


class InvalidKey(ApplianceError):
    """No key, or one nobody gave out. The message never repeats what was sent."""

    status = 401
    code = "invalid_api_key"
    fault = Fault.CLIENT


class NotAllowed(ApplianceError):
    """The key may not ask for this model."""

    status = 403
    code = "model_not_allowed"
    fault = Fault.CLIENT


class EgressDenied(ApplianceError):
    """The key may not leave this machine, and the model asked for is elsewhere."""

    status = 403
    code = "egress_denied"
    fault = Fault.CLIENT


class UntrustedHost(ApplianceError):
    """The Host header is none this server answers to: a page may have pointed a name of its own here."""

    status = 403
    code = "untrusted_host"
    fault = Fault.CLIENT


class UntrustedOrigin(ApplianceError):
    """A page in a browser that may not call this server."""

    status = 403
    code = "untrusted_origin"
    fault = Fault.CLIENT


class UnknownModel(ApplianceError):
    """No model, alias or glob of the deployment answers to the name asked for."""

    status = 404
    code = "model_not_found"
    fault = Fault.CLIENT


class UnknownPath(ApplianceError):
    """No such URL."""

    status = 404
    code = "not_found"
    fault = Fault.CLIENT


class WrongMethod(ApplianceError):
    """The URL exists, the HTTP method does not."""

    status = 405
    code = "method_not_allowed"
    fault = Fault.CLIENT


class BodyTooLarge(ApplianceError):
    """The body is larger than `server.max_body`."""

    status = 413
    code = "body_too_large"
    fault = Fault.CLIENT


class UnsupportedEncoding(ApplianceError):
    """The body is compressed."""

    status = 415
    code = "unsupported_encoding"
    fault = Fault.CLIENT


class Cancelled(ApplianceError):
    """Somebody asked for this request to be ended."""

    status = 499
    code = "cancelled"
    fault = Fault.CLIENT


class UnknownRequest(ApplianceError):
    """No request of this id is running."""

    status = 404
    code = "request_not_found"
    fault = Fault.CLIENT


class UnknownResponse(ApplianceError):
    """No response of this id is kept."""

    status = 404
    code = "response_not_found"
    fault = Fault.CLIENT


class UnknownFile(ApplianceError):
    """No file of this id is kept."""

    status = 404
    code = "file_not_found"
    fault = Fault.CLIENT


class UnknownBatch(ApplianceError):
    """There is no batch of this id."""

    status = 404
    code = "batch_not_found"
    fault = Fault.CLIENT


class UnknownPrevious(BadRequest):
    """The response to go on from is not kept."""

    code = "previous_response_not_found"


class SlowBody(ApplianceError):
    """The client stopped sending its body."""

    status = 408
    code = "request_timeout"
    fault = Fault.CLIENT


class Overloaded(ApplianceError):
    """A queue is full; come back after `retry_after`."""

    status = 429
    code = "overloaded"
    fault = Fault.CLIENT


class RateLimited(ApplianceError):
    """A limit of the key is reached; it has room again after `retry_after`."""

    status = 429
    code = "rate_limit_exceeded"
    fault = Fault.CLIENT


class Unavailable(ApplianceError):
    """The model cannot answer now (loading, downloading, draining, no memory) but may later."""

    status = 503
    code = "unavailable"
    fault = Fault.ENGINE


class NotStored(ApplianceError):
    """What the client sent cannot be written to disk, or what is kept there not be read: full, read-only, gone."""

    status = 507
    code = "insufficient_storage"
    fault = Fault.CONFIG


class LoadFailed(ApplianceError):
    """The model could not be loaded; `permanent` until its spec or its files change."""

    status = 503
    code = "load_failed"
    fault = Fault.ENGINE

    def __init__(
        self, message: str, *, permanent: bool = False, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, param=param, retry_after=retry_after)
        self.permanent = permanent


class DiedLoading(LoadFailed):
    """The engine process ended before it could say why: it may have been killed."""


class EngineDied(ApplianceError):
    """The engine process ended while it was working."""

    status = 500
    code = "engine_died"
    fault = Fault.ENGINE


class EngineFault(ApplianceError):
    """The engine reported a failure of one sequence and lives on."""

    status = 500
    code = "engine_error"
    fault = Fault.ENGINE


class PeerFailed(ApplianceError):
    """Another server could not be reached, or did not answer as it should."""

    status = 502
    code = "peer_failed"
    fault = Fault.ENGINE


class TimedOut(ApplianceError):
    """A deadline of `server.*_timeout` passed."""

    status = 504
    code = "timeout"
    fault = Fault.ENGINE


class WireError(ApplianceError):
    """A frame that cannot be read: the two processes do not speak the same version."""

    code = "wire_error"


class SourceError(ApplianceError):
    """A model source that cannot be found, fetched, read or converted; `permanent` where a retry cannot help."""

    status = 503
    code = "source_error"
    fault = Fault.CONFIG

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


class StartRefused(ApplianceError):
    """The appliance cannot start: bad configuration (78), port taken (69/75), no permission (77)."""

    code = "start_refused"
    fault = Fault.CONFIG

    def __init__(self, message: str, *, exit_code: int = 78) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StalePlan(ApplianceError):
    """The plan was made for another file or another generation."""

    status = 409
    code = "stale_plan"
    fault = Fault.CLIENT


class InUse(ApplianceError):
    """The model cannot be unloaded: requests hold its engine."""

    status = 409
    code = "in_use"
    fault = Fault.CLIENT


class GenerationMoved(ApplianceError):
    """`If-Match` named another generation than the one that runs."""

    status = 412
    code = "generation_moved"
    fault = Fault.CLIENT


class UnknownGeneration(ApplianceError):
    """No such generation is kept."""

    status = 404
    code = "generation_not_found"
    fault = Fault.CLIENT


BY_CODE: dict[str, type[ApplianceError]] = {
    cls.code: cls
    for cls in (
        ApplianceError, BadRequest, Unsupported, PromptTooLong, TemplateFailed, UnknownModel, Overloaded,
        Unavailable, EngineDied, EngineFault, TimedOut, LoadFailed,
    )
}  # fmt: skip
"""The errors an engine may report over the wire, by code."""


def revive(code: str, message: str, param: str | None) -> ApplianceError:
    """Build the error an engine reported; a code from another version becomes an EngineFault."""
    return BY_CODE.get(code, EngineFault)(message, param=param)
