"""Which snapshot serves a prompt best, and which ones stay: a radix tree of token ids per namespace, least
recently used out first, by bytes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, NamedTuple, Protocol

from appliance.engine.backend import Snapshot
from appliance.engine.radix import Node, Tokens, descend, entry_below, make_path, next_stored, prune, reckon

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


class PrefixCache:
    """Snapshots by the tokens they cover. A budget of 0 bytes keeps none."""

    def __init__(self, budget: int, watcher: Watcher | None = None) -> None:
        self.bytes = 0
        self._budget = budget
        self._pinned_bytes = 0
        self._now = 0.0
        self._watcher = watcher or Unwatched()
        self._roots: dict[str, Node] = {}
        self._recent: OrderedDict[Node, str] = OrderedDict()
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
        node, common = descend(root, tuple(tokens))
        told = (common, next_stored(node, common) if common < len(tokens) else None)
        while common > 0:
            usable = min(common, most)
            if usable > 0 and node.shortest <= usable:
                return Match(self._use(entry_below(node, usable)), usable, *told)
            assert node.parent is not None
            node = node.parent
            common = node.depth
        return Match(None, 0, *told)

    def covers(self, tokens: Sequence[int], namespace: str = "") -> bool:
        """Whether an entry stands for exactly these tokens; that is no use of it."""
        root = self._roots.get(namespace)
        if root is None:
            return False
        node, common = descend(root, tuple(tokens))
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
        root = self._roots.setdefault(namespace, Node(None, (), 0))
        node = make_path(root, tuple(tokens[: snapshot.length]))
        if node.shortest <= snapshot.shortest:
            self._use(entry_below(node, snapshot.shortest))  # it stands for this one already
            prune(node)
            return
        self._drop_entry(node, superfluous=True)
        self._add_entry(node, snapshot, namespace)
        self._drop_shorter(node, snapshot.shortest)
        self._watcher.kept(tuple(tokens[: snapshot.length]), snapshot, namespace)
        self._evict()

    def _use(self, node: Node) -> Snapshot:
        assert node.snapshot is not None
        self._recent.move_to_end(node)
        node.used = self._now
        return node.snapshot

    def _add_entry(self, node: Node, snapshot: Snapshot, namespace: str) -> None:
        node.snapshot, node.used = snapshot, self._now
        self._recent[node] = namespace
        self.bytes += snapshot.nbytes
        self._pinned_bytes += snapshot.nbytes if namespace == PINNED else 0
        reckon(node)

    def _drop_entry(self, node: Node, *, superfluous: bool) -> str | None:
        """Forget a node's snapshot; the node itself stays for `prune`. Returns its namespace."""
        if node.snapshot is None:
            return None
        self._watcher.dropped(node.snapshot, superfluous=superfluous)
        self.bytes -= node.snapshot.nbytes
        namespace = self._recent.pop(node)
        self._pinned_bytes -= node.snapshot.nbytes if namespace == PINNED else 0
        node.snapshot = None
        reckon(node)
        return namespace

    def _drop_shorter(self, node: Node, shortest: int) -> None:
        """Forget those that an entry which can be cut so short stands for."""
        above = node.parent
        while above is not None and above.depth >= shortest:
            parent = above.parent
            if above.snapshot is not None and above.snapshot.shortest >= shortest:
                self._drop_entry(above, superfluous=True)
                prune(above)
            above = parent

    def _evict(self) -> None:
        while self.bytes > self._budget:
            unpinned = (node for node, namespace in self._recent.items() if namespace != PINNED)
            if (oldest := next(unpinned, None)) is None:
                return
            self._take_out(oldest)

    def _take_out(self, node: Node) -> None:
        namespace = self._drop_entry(node, superfluous=False)
        assert namespace is not None
        root = prune(node)
        if root is not None and not root.children:
            del self._roots[namespace]


def reason(match: Match, tokens: int) -> Reason:
    """Why of a prompt's `tokens` only those of the match are not computed again."""
    if match.length >= tokens - 1 > 0:
        return "whole"
    if match.length < min(match.shared, tokens - 1):
        return "uncut"
    if match.stored is not None and match.shared:
        return "differs"
    return "longer" if match.shared else "new"
