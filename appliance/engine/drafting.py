"""How far ahead to guess in one sequence, and when to leave it: by what became of its guesses."""

from collections.abc import Callable, Sequence

START = 4
_LONGEST_PAUSE = 128

OPEN = -1
"""A guess that the backend is to make."""

Guess = tuple[int, ...]
Follow = Callable[[int], Guess]
"""A depth to that many tokens at most."""


def asks_the_backend(depth: int) -> Guess:
    return (OPEN,) * depth


class Drafting:
    """Guesses that were all right double the depth, up to `most`; others cut it to what was right and one more.
    After a guess that was wrong from its first token the sequence is left alone for a while, each time longer.
    """

    def __init__(self, most: int, follow: Follow) -> None:
        self._most = most
        self._follow = follow
        self._depth = min(START, most)
        self._pause = 0
        self._again_at = 0
        self._looked_at = -1
        self._found: Guess = ()

    def guess(self, known: Sequence[int], room: int) -> Guess:
        """What may come after `known` tokens, at most `room` of them; nothing while it is left alone."""
        length = len(known)
        if length < self._again_at or room <= 0:
            return ()
        if self._looked_at != length:
            if self._found and self._looked_at == length - 1 and self._found[0] not in (OPEN, known[-1]):
                self._missed(length)  # it was never tried, but would have been wrong
                return ()
            self._looked_at, self._found = length, self._follow(self._depth)
        return self._found[:room]

    def learn(self, length: int, drafted: int, accepted: int) -> None:
        """Of `drafted` tokens so many were accepted; with the one after them `length` are known."""
        self._found = ()
        if accepted == 0:
            self._missed(length)
            return
        self._pause = 0
        if accepted < drafted:
            self._depth = min(accepted + 1, self._most)
        else:
            self._depth = min(max(self._depth, drafted * 2), self._most)

    def _missed(self, length: int) -> None:
        self._found, self._depth = (), min(START, self._most)
        self._pause = min(max(2 * self._pause, START), _LONGEST_PAUSE)
        self._again_at = length + self._pause
