"""Where patterns stand in a text that arrives in pieces: the leftmost match wins, at one place the shortest.

Only text that may still become part of a match is held back. Time is linear, memory is the patterns' own size.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

_LOOKAHEAD = 4
"""So many characters of a pattern are looked for at once: they begin nothing else in most texts."""


class Scan(NamedTuple):
    """`literal` is text no pattern can claim any more; where `match` is a pattern, it stood right after the
    literal and `rest` is what followed it, not looked at yet.
    """

    literal: str
    match: str | None
    rest: str


@dataclass(eq=False, slots=True)
class _Node:
    depth: int
    go: dict[str, "_Node"] = field(default_factory=dict)
    fail: "_Node | None" = None
    pattern: str | None = None
    """The longest pattern that ends here: of all that end at one place it begins leftmost."""


class Scanner:
    """An Aho-Corasick automaton over a set of non-empty patterns, with what it holds of the text so far."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(dict.fromkeys(p for p in patterns if p))
        self._root = _build(self._patterns)
        begun = "|".join(_begun(p[:_LOOKAHEAD]) for p in self._patterns)
        self._starts = re.compile(begun) if begun else None
        self._node = self._root
        self._held = ""
        self._found: tuple[int, str] | None = None

    def passes(self, text: str) -> bool:
        """Whether nothing is held and no pattern can begin in `text`: then it is literal, and need not be scanned."""
        return not self._held and (self._starts is None or self._starts.search(text) is None)

    def scan(self, text: str) -> Scan:
        """Read on up to the next match. Feed `rest` again, to this scanner or to another."""
        if self._starts is None:
            return Scan(text, None, "")
        at = len(self._held)
        if at == 0:
            if (first := self._starts.search(text)) is None:
                return Scan(text, None, "")
            at = first.start()
        return self._read(self._held + text, at)

    def _read(self, whole: str, begin: int) -> Scan:
        """`whole` is what was held and what came; up to `begin` it has been read before."""
        assert self._starts is not None
        node, found, at = self._node, self._found, begin
        while at < len(whole):
            if node is self._root:
                if (first := self._starts.search(whole, at)) is None:
                    break
                at = first.start()
            node = node.go.get(whole[at]) or _step(node, whole[at])
            at += 1
            if node.pattern is not None:
                start = at - len(node.pattern)
                found = (start, node.pattern) if found is None or start < found[0] else found
            # Something that began further left may still become a match: then it wins.
            if found is not None and at - node.depth >= found[0]:
                return self._matched(whole, found)
        kept = len(whole) - node.depth
        self._held, self._node = whole[kept:], node
        self._found = (found[0] - kept, found[1]) if found is not None else None
        return Scan(whole[:kept], None, "")

    def close(self) -> Scan:
        """The text is over: what is held is a match that nothing longer overtook, or literal."""
        if self._found is not None:
            return self._matched(self._held, self._found)
        return Scan(self.take(), None, "")

    def take(self) -> str:
        """Give up what is held, unread."""
        held = self._held
        self._reset()
        return held

    def _matched(self, whole: str, found: tuple[int, str]) -> Scan:
        self._reset()
        start, pattern = found
        return Scan(whole[:start], pattern, whole[start + len(pattern) :])

    def _reset(self) -> None:
        self._node = self._root
        self._held = ""
        self._found = None


def _begun(pattern: str) -> str:
    """A regular expression for `pattern`, or for as much of it as stands at the text's end."""
    more = f"(?:\\Z|{_begun(pattern[1:])})" if pattern[1:] else ""
    return re.escape(pattern[0]) + more


def _build(patterns: tuple[str, ...]) -> _Node:
    root = _Node(0)
    for pattern in patterns:
        node = root
        for char in pattern:
            node = node.go.setdefault(char, _Node(node.depth + 1))
        node.pattern = pattern
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for char, child in node.go.items():
            child.fail = _longest_suffix(node.fail, char) or root
            child.pattern = child.pattern or child.fail.pattern
            queue.append(child)
    return root


def _step(node: _Node, char: str) -> _Node:
    while char not in node.go:
        if node.fail is None:
            return node
        node = node.fail
    return node.go[char]


def _longest_suffix(node: _Node | None, char: str) -> _Node | None:
    while node is not None and char not in node.go:
        node = node.fail
    return node.go[char] if node is not None else None
