"""What a protocol is to the server: bytes become a request, its events become bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from appliance.errors import ApplianceError
from appliance.vocab.event import Event
from appliance.vocab.request import GenerateRequest


def _no_time() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What every part of one answer repeats. `id` is unique, `model` the name as asked, `created` Unix seconds.

    `clock` tells the seconds since the request came in, `prompts` the texts of prompts to be echoed.
    """

    id: str
    created: int
    model: str
    choices: int = 1
    include_usage: bool = False
    clock: Callable[[], float] = _no_time
    prompts: tuple[str, ...] = ()


class Encoder(Protocol):
    """A streamed answer: feed events, send what comes back. Each call returns whole events, or nothing."""

    def feed(self, index: int, event: Event) -> bytes:
        """What one event of choice `index` says."""
        ...

    def heartbeat(self) -> bytes:
        """What keeps a client waiting that has heard nothing for a while."""
        ...

    def close(self) -> bytes:
        """The end of a stream whose choices have all finished."""
        ...

    def error(self, error: ApplianceError) -> bytes:
        """The end of a stream that failed after its first byte; nothing may follow."""
        ...


class Fold(Protocol):
    """The answer that does not stream: the same events, kept until the end."""

    def feed(self, index: int, event: Event) -> object:
        """Take one event of choice `index`."""
        ...

    def body(self) -> bytes:
        """The JSON body, once every choice has finished."""
        ...


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request, and who says its answer. `echoes`: the answer repeats the texts of its prompts; `background`: it is
    finished whether its client waits or not; `unloads`: all it wants is its model out of memory.
    """

    request: GenerateRequest
    stream: Callable[[Answer], Encoder]
    whole: Callable[[Answer], Fold]
    echoes: bool = False
    background: bool = False
    unloads: bool = False
