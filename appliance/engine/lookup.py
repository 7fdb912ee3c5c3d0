"""Which tokens followed where the end of a text stood before: in itself, or in other texts of its kind."""

from collections import deque
from collections.abc import Sequence

GRAM = 3
"""Tokens at the end that must have stood before: fewer follow each other by chance too often."""
_PLACES = 8
"""How many of the latest places of one gram are compared."""
_LONGEST = 32
"""Tokens back from a place that are compared; what agrees for longer is equally sure."""

Text = list[int]
Place = tuple[Text, int]  # a text and where a gram ends in it


class Index:
    """Every gram of the texts that were read, and its latest places. Grows with what is read, not with look-ups."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, ...], deque[Place]] = {}
        self.tokens = 0

    def read(self, text: Text, start: int, end: int) -> None:
        """Take up the grams that end in text[start:end]; the text may grow later, but must not change."""
        for stop in range(max(start, GRAM - 1) + 1, end + 1):
            gram = tuple(text[stop - GRAM : stop])
            places = self._places.get(gram)
            if places is None:
                self._places[gram] = places = deque(maxlen=_PLACES)
            places.append((text, stop))
        self.tokens += max(end - start, 0)

    def places(self, gram: tuple[int, ...]) -> Sequence[Place]:
        """Oldest first."""
        return self._places.get(gram, ())


class Memory:
    """Texts of answers that ended, the latest `most` tokens at least and twice that at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.now, self.before = Index(), Index()

    def keep(self, text: Text) -> None:
        if self.now.tokens + len(text) > self._most:
            self.now, self.before = Index(), self.now
        self.now.read(text, 0, min(len(text), self._most))


class Lookup:
    """Follows one growing text. `known` is its owner's list: tokens are appended to it, never changed.

    `foretold` is what may come after `start` of its tokens, word for word.
    """

    def __init__(self, known: Text, start: int, foretold: Text | None = None, memory: Memory | None = None) -> None:
        self._known, self._start = known, start
        self._own = Index()
        self._read = 0
        self._foretold = foretold or []
        self._told = Index()
        self._told.read(self._foretold, 0, len(self._foretold))
        self._memory = memory

    def follow(self, depth: int) -> tuple[int, ...]:
        """Up to `depth` tokens that followed where the text's end stood before: after the longest agreement, in this
        text rather than in another, the latest of equal ones.
        """
        known, end = self._known, len(self._known)
        # The end itself is read when the text has grown past it: it must not be found as its own past.
        self._own.read(known, self._read, end - 1)
        self._read = max(end - 1, 0)
        best, longest = self._foretold_so_far()
        gram = tuple(known[-GRAM:])
        for index in self._indices():
            for text, stop in reversed(index.places(gram)):
                if stop < len(text) and (length := _agreement(text, stop, known)) > longest:
                    best, longest = (text, stop), length
        return () if best is None else _after(best, known, depth)

    def _indices(self) -> tuple[Index, ...]:
        memory = self._memory
        return (self._told, self._own) if memory is None else (self._told, self._own, memory.now, memory.before)

    def _foretold_so_far(self) -> tuple[Place | None, int]:
        """An answer that begins as foretold needs no gram before it."""
        said = len(self._known) - self._start
        if said < len(self._foretold) and self._foretold[:said] == self._known[self._start :]:
            return (self._foretold, said), _LONGEST
        return None, 0


def _agreement(text: Text, stop: int, known: Text) -> int:
    """How many tokens before text[stop] are those at the end of `known`."""
    length, end = GRAM, len(known)
    while length < min(_LONGEST, stop, end) and text[stop - length - 1] == known[end - length - 1]:
        length += 1
    return length


def _after(place: Place, known: Text, depth: int) -> tuple[int, ...]:
    """What follows a place. Where that is near the end of `known` itself, it goes on as if it repeated."""
    text, stop = place
    found = text[stop : stop + depth]
    if text is known and len(found) < depth:
        found = [found[n % len(found)] for n in range(depth)]
    return tuple(found)
