"""What a peer is asked, whatever it speaks; and what every form of speaking to one can do."""

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from appliance.errors import PeerFailed, Unsupported
from appliance.vocab.event import Event
from appliance.vocab.request import GenerateRequest, Sampling, TextPrompt, TokenPrompt


@dataclass(frozen=True, slots=True)
class Question:
    """One answer is wanted. `model` is the peer's own name of it; of `sampling` only `given_names` were decided
    by anybody, the rest is left to the peer. `prompt` is a raw one, in place of the request's messages.
    """

    model: str
    asked: GenerateRequest
    sampling: Sampling
    given_names: frozenset[str]
    prompt: TextPrompt | TokenPrompt | None = None

    def value(self, name: str) -> Any:
        """Of the sampling, where somebody decided it."""
        return getattr(self.sampling, name) if name in self.given_names else None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to a peer: `path` below its URL, `left_out` what it was not told since it does not know of it."""

    path: str
    body: bytes
    left_out: tuple[str, ...] = ()


class Reading(Protocol):
    """Reads one streamed answer. `feed` takes bytes as they come."""

    def feed(self, data: bytes) -> list[Event]:
        """The events these bytes complete. Raises PeerFailed for what the peer says went wrong, or cannot be read."""
        ...

    def close(self) -> list[Event]:
        """The end of the bytes. Raises PeerFailed where the answer was not over."""
        ...


def outgoing(path: str, fields: dict[str, Any], left_out: list[str]) -> Outgoing:
    """The fields as a body, without those nobody gave."""
    given = {name: value for name, value in fields.items() if value is not None}
    return Outgoing(path, msgspec.json.encode(given), tuple(left_out))


def refuse(name: str, what: str) -> Unsupported:
    """The error for what cannot be left out without another answer."""
    return Unsupported(f"`{name}` is not supported: {what}", param=name)


def broken(what: str) -> PeerFailed:
    """The error for an answer that cannot be read."""
    return PeerFailed(f"the peer's answer cannot be read: {what}")
