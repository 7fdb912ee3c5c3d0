"""What a measured answer and a measured load are, whoever gave it; also the lines to and from a child process."""

from collections.abc import Iterator
from itertools import pairwise, zip_longest
from typing import Any

import msgspec

from tests.bench.prompts import Chat


class Answer(msgspec.Struct, frozen=True):
    """One streamed answer: the seconds from asking to each piece of text and to the end."""

    arrivals: tuple[float, ...]
    seconds: float
    tokens: int
    text: str

    @property
    def first(self) -> float:
        """Seconds to the first text; to the end where the model had nothing to say."""
        return self.arrivals[0] if self.arrivals else self.seconds

    @property
    def gaps(self) -> list[float]:
        """Seconds between one piece of text and the next."""
        return [later - earlier for earlier, later in pairwise(self.arrivals)]


class Load(msgspec.Struct, frozen=True):
    """Chats to be answered, `streams` at a time. `extras` are more fields of the nth chat's request."""

    chats: list[Chat]
    streams: int
    max_tokens: int
    extras: tuple[dict[str, Any], ...] = ()

    @property
    def requests(self) -> Iterator[tuple[Chat, dict[str, Any]]]:
        return zip_longest(self.chats, self.extras, fillvalue={})  # type: ignore[return-value]


class Outcome(msgspec.Struct, frozen=True):
    """All answers of a load, in the order of its chats, and how long they took together."""

    seconds: float
    answers: tuple[Answer, ...]

    @property
    def tokens_per_second(self) -> float:
        return sum(answer.tokens for answer in self.answers) / self.seconds
