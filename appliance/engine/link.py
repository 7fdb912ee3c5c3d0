"""What the engine does with each frame of the server: pings are answered here, the rest goes where it belongs.

The reader thread only reads. End of file is the server's death, or its word to end: the process ends at once,
whatever else it is doing.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NoReturn

from appliance.engine.inbox import Inbox
from appliance.engine.outbox import Outbox
from appliance.errors import WireError
from appliance.vocab.spec import Submission
from appliance.wire.frames import Cancel, Configure, Count, Hello, Ping, Pong, Probe, Submit, ToEngine, engine_reader

_CHUNK = 1 << 18


@dataclass(eq=False, slots=True)
class Link:
    """`die` ends the process; `hellos`, and `submissions` and counts (with their order) wait for who takes them."""

    socket: socket.socket
    outbox: Outbox
    inbox: Inbox
    die: Callable[[str], NoReturn]
    hellos: "SimpleQueue[Hello]" = field(default_factory=SimpleQueue)
    submissions: "SimpleQueue[tuple[int, Submission | Count | Probe]]" = field(default_factory=SimpleQueue)
    pong: Callable[[int], Pong] = Pong
    order: int = 0

    def read(self) -> None:
        """Run on the reader thread."""
        reader = engine_reader()
        while True:
            try:
                data = self.socket.recv(_CHUNK)
                frames = reader.feed(data)
            except (OSError, WireError) as error:
                self.die(f"cannot read from the server: {error}")
            if not data:
                self.die("the server closed the socket")
            for frame in frames:
                self._take(frame)

    def _take(self, frame: ToEngine) -> None:
        match frame:
            case Ping(nonce):
                self.outbox.put(self.pong(nonce))
            case Cancel(id):
                self.inbox.cancel(id)
            case Submit(submission):
                self.order += 1
                self.inbox.announce(submission.id)
                self.submissions.put((self.order, submission))
            case Count() | Probe():
                self.submissions.put((self.order, frame))
            case Configure(settings):
                self.inbox.configure(settings)
            case Hello():
                self.hellos.put(frame)
