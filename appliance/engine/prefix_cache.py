"""Which snapshot serves a prompt best, and which ones stay: a radix tree of token ids per namespace, least
recently used out first, by bytes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, NamedTuple, Protocol

from appliance.engine.backend import Snapshot

Tokens = tuple[int, ...]

_NONE = float("inf")
"""Tokens: where there is no entry."""

PINNED = "\0pinned"
"""The namespace of what the deployment keeps warm: it is found in every other, and never has to make room."""

Reason = Literal["whole", "longer", "differs", "uncut", "new"]
"""whole: all that may be is reused, the last token is always computed. longer: the prompt goes on where what is
stored ends. differs: it goes on with another token than what is stored. uncut: more is stored, but this kind of cache
cannot be cut back to what they share. new: nothing stored begins like it.
"""


class Match(NamedTuple):
    """`length` of the snapshot's tokens begin the prompt and may be used; less than its own length is a trim.

    `shared` tokens of the prompt are in the tree, whether they can be used or not; `stored` is the token that comes
    next there, None where the tree or the prompt ends.
    """

    snapshot: Snapshot | None
    length: int
    shared: int = 0
    stored: int | None = None


NO_MATCH = Match(None, 0)


class Watcher(Protocol):
    """Whoever keeps prefixes elsewhere too."""

    def kept(self, tokens: Tokens, snapshot: Snapshot, namespace: str) -> None:
        """A snapshot of exactly these tokens was put in."""
        ...

    def dropped(self, snapshot: Snapshot, *, superfluous: bool) -> None:
        """A snapshot was taken out: for want of room, or because another stands for it."""
        ...


class Unwatched:
    """Nobody does."""

    def kept(self, tokens: Tokens, snapshot: Snapshot, namespace: str) -> None: ...

    def dropped(self, snapshot: Snapshot, *, superfluous: bool) -> None: ...


@dataclass(eq=False, slots=True)
class _Node:
    """`edge` leads here from `parent`; `shortest` is the shortest prefix that an entry at or below can be cut to."""

    parent: "_Node | None"
    edge: Tokens
    depth: int
    children: dict[int, "_Node"] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    shortest: float = _NONE
    used: float = 0.0


class PrefixCache:
    """Snapshots by the tokens they cover. A budget of 0 bytes keeps none."""

    def __init__(self, budget: int, watcher: Watcher | None = None) -> None:
        self.bytes = 0
        self._budget = budget
        self._pinned_bytes = 0
        self._now = 0.0
        self._watcher = watcher or Unwatched()
        self._roots: dict[str, _Node] = {}
        self._recent: OrderedDict[_Node, str] = OrderedDict()
        """Entries, least recently used first, with their namespace."""

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def enabled(self) -> bool:
        return self._budget > 0

    def resize(self, budget: int) -> None:
        self._budget = budget
        self._evict()

    def pass_to(self, now: float, ttl: float) -> None:
        """It is `now` seconds: forget what was not used for longer than `ttl`."""
        self._now = now
        unpinned = (node for node, namespace in self._recent.items() if namespace != PINNED)
        for node in list(takewhile(lambda node: node.used < now - ttl, unpinned)):
            self._take_out(node)

    def clear(self, namespace: str | None = None) -> None:
        """Keep nothing of what is there, in one namespace or in all."""
        for node in [node for node, where in self._recent.items() if namespace in (None, where)]:
            self._take_out(node)

    def match(self, tokens: Sequence[int], namespace: str = "") -> Match:
        """The longest usable prefix of `tokens`; at least one token is always left to compute."""
        own = self._match(tokens, namespace)
        pinned = self._match(tokens, PINNED) if namespace != PINNED and PINNED in self._roots else NO_MATCH
        return pinned if pinned.length > own.length else own

    def _match(self, tokens: Sequence[int], namespace: str) -> Match:
        root = self._roots.get(namespace)
        if root is None:
            return NO_MATCH
        most = len(tokens) - 1
        node, common = _descend(root, tuple(tokens))
        told = (common, _next_stored(node, common) if common < len(tokens) else None)
        while common > 0:
            usable = min(common, most)
            if usable > 0 and node.shortest <= usable:
                return Match(self._use(_entry_below(node, usable)), usable, *told)
            assert node.parent is not None
            node = node.parent
            common = node.depth
        return Match(None, 0, *told)

    def covers(self, tokens: Sequence[int], namespace: str = "") -> bool:
        """Whether an entry stands for exactly these tokens; that is no use of it."""
        root = self._roots.get(namespace)
        if root is None:
            return False
        node, common = _descend(root, tuple(tokens))
        return common == len(tokens) and node.shortest <= common

    def discard(self, snapshot: Snapshot) -> None:
        """Forget an entry that has turned out not to be there."""
        for node in self._recent:
            if node.snapshot is snapshot:
                self._take_out(node)
                return

    def disown(self, tokens: Sequence[int], least: int, namespace: str = "") -> list[Snapshot]:
        """Forget, and give, all of one namespace that `least` or more of these tokens could be taken from."""
        gone = []
        while (match := self._match(tokens, namespace)).snapshot is not None and match.length >= least:
            gone.append(match.snapshot)
            self.discard(match.snapshot)
        return gone

    def insert(self, tokens: Sequence[int], snapshot: Snapshot, namespace: str = "") -> None:
        """Keep a snapshot of the first `snapshot.length` tokens, in place of those it makes superfluous."""
        room = self._budget - self._pinned_bytes
        if not 0 < snapshot.length <= len(tokens) or snapshot.nbytes > room:
            return
        root = self._roots.setdefault(namespace, _Node(None, (), 0))
        node = _make_path(root, tuple(tokens[: snapshot.length]))
        if node.shortest <= snapshot.shortest:
            self._use(_entry_below(node, snapshot.shortest))  # it stands for this one already
            _prune(node)
            return
        self._drop_entry(node, superfluous=True)
        self._add_entry(node, snapshot, namespace)
        self._drop_shorter(node, snapshot.shortest)
        self._watcher.kept(tuple(tokens[: snapshot.length]), snapshot, namespace)
        self._evict()

    def _use(self, node: _Node) -> Snapshot:
        assert node.snapshot is not None
        self._recent.move_to_end(node)
        node.used = self._now
        return node.snapshot

    def _add_entry(self, node: _Node, snapshot: Snapshot, namespace: str) -> None:
        node.snapshot, node.used = snapshot, self._now
        self._recent[node] = namespace
        self.bytes += snapshot.nbytes
        self._pinned_bytes += snapshot.nbytes if namespace == PINNED else 0
        _reckon(node)

    def _drop_entry(self, node: _Node, *, superfluous: bool) -> str | None:
        """Forget a node's snapshot; the node itself stays for `_prune`. Returns its namespace."""
        if node.snapshot is None:
            return None
        self._watcher.dropped(node.snapshot, superfluous=superfluous)
        self.bytes -= node.snapshot.nbytes
        namespace = self._recent.pop(node)
        self._pinned_bytes -= node.snapshot.nbytes if namespace == PINNED else 0
        node.snapshot = None
        _reckon(node)
        return namespace

    def _drop_shorter(self, node: _Node, shortest: int) -> None:
        """Forget those that an entry which can be cut so short stands for."""
        above = node.parent
        while above is not None and above.depth >= shortest:
            parent = above.parent
            if above.snapshot is not None and above.snapshot.shortest >= shortest:
                self._drop_entry(above, superfluous=True)
                _prune(above)
            above = parent

    def _evict(self) -> None:
        while self.bytes > self._budget:
            unpinned = (node for node, namespace in self._recent.items() if namespace != PINNED)
            if (oldest := next(unpinned, None)) is None:
                return
            self._take_out(oldest)

    def _take_out(self, node: _Node) -> None:
        namespace = self._drop_entry(node, superfluous=False)
        assert namespace is not None
        root = _prune(node)
        if root is not None and not root.children:
            del self._roots[namespace]


def _common(a: Tokens, b: Tokens) -> int:
    """How many tokens two tuples begin with in common: slices compare in C, so halve instead of walking."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    return _common(tuple(a), tuple(b))


def _descend(root: _Node, tokens: Tokens) -> tuple[_Node, int]:
    """The node whose edge the walk ended in or at, and how many tokens it shares with `tokens`."""
    node, common = root, 0
    while common < len(tokens) and (child := node.children.get(tokens[common])) is not None:
        shared = _common(child.edge, tokens[common : common + len(child.edge)])
        node, common = child, common + shared
        if shared < len(child.edge):
            break
    return node, common


def _next_stored(node: _Node, common: int) -> int | None:
    """The token after the `common` ones, in the edge they end in or the first of those that leave the node."""
    if common < node.depth:
        return node.edge[common - node.depth]
    return next(iter(node.children), None)


def reason(match: Match, tokens: int) -> Reason:
    """Why of a prompt's `tokens` only those of the match are not computed again."""
    if match.length >= tokens - 1 > 0:
        return "whole"
    if match.length < min(match.shared, tokens - 1):
        return "uncut"
    if match.stored is not None and match.shared:
        return "differs"
    return "longer" if match.shared else "new"


def _make_path(root: _Node, tokens: Tokens) -> _Node:
    """The node that stands for exactly these tokens, splitting an edge where it must begin."""
    node, common = _descend(root, tokens)
    if common < node.depth:
        node = _split(node, common - (node.depth - len(node.edge)))
    if common < len(tokens):
        child = _Node(node, tokens[common:], len(tokens))
        node.children[tokens[common]] = child
        node = child
    return node


def _split(node: _Node, at: int) -> _Node:
    """Put a node into the edge that leads to `node`, after `at` of its tokens; return the new one."""
    parent = node.parent
    assert parent is not None and 0 < at < len(node.edge)
    upper = _Node(parent, node.edge[:at], node.depth - len(node.edge) + at, shortest=node.shortest)
    parent.children[upper.edge[0]] = upper
    node.parent, node.edge = upper, node.edge[at:]
    upper.children[node.edge[0]] = node
    return upper


def _prune(node: _Node) -> _Node | None:
    """Take away a node that holds nothing, and join the edges it was between. Returns the root if reached."""
    while node.parent is not None and node.snapshot is None and not node.children:
        del node.parent.children[node.edge[0]]
        node = node.parent
    if node.parent is None:
        return node
    if node.snapshot is None and len(node.children) == 1:
        (child,) = node.children.values()
        child.parent, child.edge = node.parent, node.edge + child.edge
        node.parent.children[child.edge[0]] = child
    return None


def _reckon(node: _Node | None) -> None:
    """Work out anew what a node and those above it can be cut to."""
    while node is not None:
        below = min((child.shortest for child in node.children.values()), default=_NONE)
        now = below if node.snapshot is None else min(below, node.snapshot.shortest)
        if now == node.shortest:
            return
        node.shortest = now
        node = node.parent


def _entry_below(node: _Node, usable: int) -> _Node:
    """The entry of a subtree that can be cut to so many tokens; the first on one path, so the cheapest to copy."""
    while node.snapshot is None or node.snapshot.shortest > usable:
        node = next(child for child in node.children.values() if child.shortest <= usable)
    return node
