"""What the step loop is told, and in which order: a cancel reaches a request wherever it is on its way."""

import threading
from collections import deque
from dataclasses import dataclass

from appliance.engine.disk_worker import News
from appliance.engine.sequence import Sequence
from appliance.vocab.spec import EngineSettings


@dataclass(frozen=True, slots=True)
class Arrival:
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Cancellation:
    id: int


@dataclass(frozen=True, slots=True)
class Configuration:
    settings: EngineSettings


@dataclass(frozen=True, slots=True)
class Farewell:
    """The process ends soon: what is to outlive it must be written now."""


Message = Arrival | Cancellation | Configuration | Farewell | News


class Inbox:
    """Thread-safe. A request is announced, prepared by another thread, then delivered or withdrawn."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._preparing: dict[int, bool] = {}
        """Announced requests, and whether they are still wanted."""
        self._changed = threading.Condition()

    def announce(self, id: int) -> None:
        with self._changed:
            self._preparing[id] = True

    def wanted(self, id: int) -> bool:
        """Whether an announced request is worth preparing."""
        return self._preparing.get(id, False)

    def withdraw(self, id: int) -> bool:
        """An announced request will not be delivered; returns whether it was still wanted."""
        with self._changed:
            return self._preparing.pop(id, False)

    def deliver(self, sequence: Sequence) -> bool:
        """Hand a prepared request to the loop, unless it was cancelled meanwhile."""
        with self._changed:
            wanted = self._preparing.pop(sequence.id, False)
            if wanted:
                self._messages.append(Arrival(sequence))
                self._changed.notify_all()
            return wanted

    def cancel(self, id: int) -> None:
        with self._changed:
            if id in self._preparing:
                self._preparing[id] = False
            else:
                self._messages.append(Cancellation(id))
                self._changed.notify_all()

    def configure(self, settings: EngineSettings) -> None:
        self.post(Configuration(settings))

    def post(self, message: Message) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    def drain(self, *, block: bool) -> list[Message]:
        """Everything that came, in order; with `block` wait for at least one."""
        if not block and not self._messages:
            return []
        with self._changed:
            if block:
                self._changed.wait_for(lambda: self._messages)
            messages = list(self._messages)
            self._messages.clear()
            return messages
