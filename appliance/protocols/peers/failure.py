"""What a peer's refusal means to our client: whose fault it is, and whether another could answer better."""

from collections.abc import Mapping
from typing import Any

import msgspec

from appliance.errors import (
    ApplianceError,
    BadRequest,
    Overloaded,
    PeerFailed,
    PromptTooLong,
    TimedOut,
    Unavailable,
    UnknownModel,
)

PASSING = frozenset({500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses that may be over a moment later."""
LONGEST_MESSAGE = 500
_TOO_LONG = ("context_length_exceeded", "prompt is too long", "maximum context length", "context window")


def failure(peer: str, status: int, headers: Mapping[str, str], body: bytes) -> ApplianceError:
    """The error of ours for an answer of a peer that is none."""
    said, code = _said(body)
    wait = _seconds(headers.get("retry-after"))
    text = f"the peer {peer} says: {said}" if said else f"the peer {peer} answered {status}"
    if 400 <= status < 500 and any(sign in f"{code} {said}".lower() for sign in _TOO_LONG):
        return PromptTooLong(text, param="messages")
    match status:
        case 400 | 413 | 422:
            return BadRequest(text)
        case 401 | 403:
            return PeerFailed(f"the peer {peer} does not take the key it is sent (routing.peers.{peer}.key)")
        case 404:
            return UnknownModel(text, param="model")
        case 408 | 504:
            return TimedOut(text)
        case 429:
            return Overloaded(text, retry_after=wait or 1.0)
        case 503 | 529:
            return Unavailable(text, retry_after=wait or 1.0)
        case _:
            return PeerFailed(text)


def told(error: Any) -> PeerFailed:
    """The error a peer says in its stream."""
    said = error.get("message") if isinstance(error, dict) else error
    return PeerFailed(f"the peer's answer failed: {_short(said) or 'it does not say why'}")


def _said(body: bytes) -> tuple[str, str]:
    """The message and the code, of whatever shape an error has."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return _short(error), ""
    return _short(error.get("message")), _short(error.get("code"))


def _short(text: Any) -> str:
    return text[:LONGEST_MESSAGE] if isinstance(text, str) else ""


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
