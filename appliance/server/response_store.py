"""The responses a client may go on from or ask for again."""

from collections import OrderedDict

from appliance.errors import UnknownResponse
from appliance.protocols.responses_stream import Kept

MAX_RESPONSES = 4096
MAX_BYTES = 256 << 20


class ResponseStore:
    """The newest responses, in memory: at most so many, of at most so many bytes together."""

    def __init__(self, most: int = MAX_RESPONSES, max_bytes: int = MAX_BYTES) -> None:
        self._most, self._max_bytes = most, max_bytes
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0

    def keep(self, kept: Kept) -> None:
        """Remember a response, forgetting the ones longest unused for it."""
        self._kept[kept.response["id"]] = kept
        self._bytes += kept.size
        while len(self._kept) > self._most or (self._bytes > self._max_bytes and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._bytes -= gone.size

    def recall(self, id: str) -> Kept | None:
        """The response of this id, which then counts as used."""
        if (kept := self._kept.get(id)) is not None:
            self._kept.move_to_end(id)
        return kept

    def get(self, id: str) -> Kept:
        """The response of this id. Raises UnknownResponse."""
        if (kept := self.recall(id)) is None:
            raise UnknownResponse(f"no response {id[:64]!r} is kept", param="response_id")
        return kept

    def forget(self, id: str) -> None:
        """Drop it. Raises UnknownResponse."""
        self._bytes -= self.get(id).size
        del self._kept[id]
