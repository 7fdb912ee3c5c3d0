"""One generation's events between the engine socket and whoever reads them.

Nothing is dropped while the reader is slow: adjacent text is merged, so what waits is bounded by the answer.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from appliance.errors import ApplianceError
from appliance.vocab.event import Event, Failed, Finished, ReasoningDelta, TextDelta


class Piece(NamedTuple):
    """What came since the last read: the token ids sampled, then the events they made."""

    tokens: tuple[int, ...]
    events: tuple[Event, ...]


class Stream:
    """Async iterator of Pieces; ends after `Finished` or `Failed`, raises what `fail` was given.

    Close it (`aclose`) when leaving early: an unfinished generation is cancelled in the engine.
    """

    def __init__(self, on_close: Callable[[bool], None]) -> None:
        self._on_close = on_close
        self._tokens: list[int] = []
        self._events: list[Event] = []
        self._ended = False
        self._error: ApplianceError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def feed(self, tokens: tuple[int, ...], events: tuple[Event, ...]) -> None:
        """Take one step's part; called from the socket, so it only stores."""
        self._tokens.extend(tokens)
        for event in events:
            _append(self._events, event)
        self._ended = self._ended or (bool(events) and isinstance(events[-1], Finished | Failed))
        self._wake()

    def fail(self, error: ApplianceError) -> None:
        """What was fed so far is still delivered, then the error is raised."""
        self._error = self._error or error
        self._wake()

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Piece:
        while not self._tokens and not self._events:
            if self._ended or self._closed:
                await self.aclose()
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        piece = Piece(tuple(self._tokens), tuple(self._events))
        self._tokens, self._events = [], []
        return piece

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_close(self._ended)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _append(events: list[Event], event: Event) -> None:
    match (events[-1] if events else None), event:
        case TextDelta(before, known, prompt), TextDelta(text, new, more):
            events[-1] = TextDelta(before + text, known + new, prompt + more)
        case ReasoningDelta(before, known), ReasoningDelta(text, new):
            events[-1] = ReasoningDelta(before + text, known + new)
        case _:
            events.append(event)
