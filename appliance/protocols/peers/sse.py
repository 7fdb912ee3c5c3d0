"""Server-sent events out of bytes that are cut anywhere."""

from appliance.errors import PeerFailed

LONGEST_LINE = 8 << 20
"""Bytes; what is longer is nobody's event."""


class Lines:
    """The data of each event, as it is complete; names of events, ids and comments say nothing we need."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Raises PeerFailed for a line without an end."""
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise PeerFailed("the peer's answer cannot be read: a line of its stream has no end")
        self._rest = bytearray(rest)
        found = (self._line(bytes(line).rstrip(b"\r")) for line in lines)
        return [event for event in found if event]

    def _line(self, line: bytes) -> bytes:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            whole, self._data = b"\n".join(self._data), []
            return whole
        return b""
