"""How frames leave the engine: at once where the socket takes them, else by a writer thread; the step loop never
waits for the server.
"""

import socket
import threading
from collections.abc import Callable

from appliance.wire.frames import ToServer, encode

MAX_UNSENT_BYTES = 64 << 20


class Outbox:
    """Sends frames in order from any thread. `on_dead` is called when the server is gone or does not read."""

    def __init__(self, link: socket.socket, on_dead: Callable[[str], None]) -> None:
        self._link = link
        self._on_dead = on_dead
        self._unsent = bytearray()
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._writer.start()

    def put(self, frame: ToServer) -> None:
        """Send without waiting. Raises WireError for a frame above the size limit."""
        data = encode(frame)
        with self._changed:
            # Most frames go out here: waking the writer costs a switch of threads per step.
            sent = 0 if self._unsent else self._send_now(data)
            if sent == len(data):
                return
            self._unsent += data[sent:]
            self._changed.notify_all()
            unread = len(self._unsent)
        if unread > MAX_UNSENT_BYTES:
            self._on_dead(f"the server has left {unread} bytes unread")

    def flush(self, seconds: float) -> bool:
        """Wait until everything is sent, `seconds` at most."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unsent, seconds)

    def _send_now(self, data: bytes) -> int:
        try:
            return self._link.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            self._on_dead("the server closed the socket")
            return len(data)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent)
                data = bytes(self._unsent[: 1 << 20])
            try:
                sent = self._link.send(data)
            except OSError:
                self._on_dead("the server closed the socket")
                return
            with self._changed:
                del self._unsent[:sent]
                self._changed.notify_all()
