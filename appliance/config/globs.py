"""Whether one glob takes every text that another takes: both are run at once over all texts there may be. PURE.

Globs are those of `fnmatch`: `*`, `?`, `[abc]`, `[a-z]`, `[!abc]`; a bracket that is never closed is itself.
"""

import fnmatch
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST_STATES = 5_000
"""Beyond so many nothing is said. Only globs like `*a??????????????` need more."""


def is_glob(text: str) -> bool:
    """Whether it may stand for several texts."""
    return not set(text).isdisjoint("*?[")


def contains(outer: str, inner: str) -> bool:
    """Whether every text that `inner` takes is taken by `outer`; False, too, where it takes too long to find out."""
    if not is_glob(inner):
        return fnmatch.fnmatchcase(inner, outer)
    # Of most pairs one text of the inner one says at once that they have little in common.
    if "[" not in inner and not fnmatch.fnmatchcase(inner.replace("*", ""), outer):
        return False
    own, other = _Walk.of(inner, 0), _Walk.of(outer, len(_tokens(inner)) + 1)
    state = own.start | other.start
    seen, ahead = {state}, [state]
    letters = {own.takes(letter) | other.takes(letter) for letter in _letters(outer + inner)}
    while ahead and len(seen) <= MOST_STATES:
        state = ahead.pop()
        if state & own.end and not state & other.end:
            return False
        after = {(state & letter) << 1 | state & (own.stars | other.stars) for letter in letters}
        # Where the inner one has given up nothing can be found any more.
        fresh = {each for each in after - seen if each & own.all}
        seen |= fresh
        ahead += fresh
    return not ahead


def takes_something(glob: str) -> bool:
    """Whether there is a text that it takes: of `[z-a]` there is none."""
    letters = list(_letters(glob))
    return all(any(_takes(token, letter) for letter in letters) for token in _tokens(glob))


@dataclass(frozen=True, slots=True)
class _Walk:
    """A glob as places between its tokens for one character, a bit each from `first` on: in `start` is the first of
    them, in `end` the last, in `stars` are those that take any character and stay.
    """

    tokens: tuple[str, ...]
    first: int
    stars: int

    @classmethod
    def of(cls, glob: str, first: int) -> "_Walk":
        tokens: list[str] = []
        stars = 0
        for token in _split(glob):
            if token == "*":
                stars |= 1 << first + len(tokens)
            else:
                tokens.append(token)
        return cls(tuple(tokens), first, stars)

    @property
    def start(self) -> int:
        return 1 << self.first

    @property
    def end(self) -> int:
        return 1 << self.first + len(self.tokens)

    @property
    def all(self) -> int:
        return (self.end << 1) - self.start

    def takes(self, letter: str) -> int:
        """The places that a character leads on from."""
        return sum(1 << self.first + i for i, token in enumerate(self.tokens) if _takes(token, letter))


def _takes(token: str, letter: str) -> bool:
    return token == letter or (is_glob(token) and fnmatch.fnmatchcase(letter, token))


def _tokens(glob: str) -> list[str]:
    """What it has for one character each."""
    return [token for token in _split(glob) if token != "*"]


def _split(glob: str) -> Iterator[str]:
    """A character, `*`, `?` or a whole class at a time."""
    at = 0
    while at < len(glob):
        end = _class_end(glob, at) if glob[at] == "[" else at + 1
        yield glob[at:end]
        at = end


def _class_end(glob: str, start: int) -> int:
    """Behind the bracket that closes a class, which is not the first character in it; of none, behind the first."""
    inside = start + (2 if glob[start + 1 : start + 2] == "!" else 1)
    return (glob.find("]", inside + 1) + 1) or start + 1


def _letters(text: str) -> Iterable[str]:
    """Characters of which one lies in every part that the characters of a text, as ends of ranges, tell apart."""
    return {"\0"} | set(text) | {chr(min(ord(letter) + 1, sys.maxunicode)) for letter in text}
