"""Which prefixes go to disk and which come back: the step loop's end of the disk tier.

A prefix is written once it has been kept for a moment, so that those which the next turn replaces never are. A prompt
that the disk knows more of than memory waits outside the scheduler until its prefix is read.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from appliance import log
from appliance.engine.backend import Freezer, Snapshot
from appliance.engine.disk_entry import BrokenEntry, Entry
from appliance.engine.disk_worker import DiskWorker, Found, News, Verified, Written
from appliance.engine.prefix_cache import PINNED, PrefixCache
from appliance.engine.radix import Tokens, common_prefix
from appliance.engine.sequence import Sequence
from appliance.vocab.spec import DiskSettings

SETTLE_SECONDS = 1.0
WORTH_TOKENS = 32
"""Less is computed sooner than read."""
_ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class _Pending:
    tokens: Tokens
    snapshot: Snapshot
    namespace: str
    due: float


@dataclass(eq=False, slots=True)
class _Open:
    """A directory in use; `known`: what lies there is in the index."""

    settings: DiskSettings
    freezer: Freezer
    worker: DiskWorker
    index: PrefixCache
    known: bool = False
    reading: dict[int, tuple[Entry, list[Sequence]]] = field(default_factory=dict)
    """Sequences by the entry (its identity) they wait for."""


class DiskTier:
    """Watches the prefix cache of memory. All methods but `flush` belong to the step loop; `post` hands it the news
    that `take` then gets. Without a freezer nothing is kept on disk.
    """

    def __init__(self, freezer: Freezer | None = None, post: Callable[[News], None] = lambda news: None) -> None:
        self._freezer, self._post = freezer, post
        self._open: _Open | None = None
        self._early: list[Sequence] = []
        """Came before it was known what lies on disk."""
        self._pending: deque[_Pending] = deque()
        self._writing: _Pending | None = None
        self._spoilt = False
        """What is being written must not stay."""
        self._hurried = False
        self._settled = threading.Event()
        self._settled.set()

    # ---- settings
    def configure(self, settings: DiskSettings | None) -> list[Sequence]:
        """Use this directory from now on; gives back the sequences that waited for another."""
        if self._open is not None and settings is not None and _same(self._open.settings, settings):
            if self._open.settings != settings:
                self._open.settings = settings
                self._open.worker.resize(settings)
            return []
        back = self._close()
        if settings is not None and self._freezer is not None:
            worker = DiskWorker(settings, self._freezer.key(settings), self._post)
            self._open = _Open(settings, self._freezer, worker, PrefixCache(_ALL, _Superfluous(worker)))
            worker.scan()
        return back

    def _close(self) -> list[Sequence]:
        back, self._early = self._early, []
        self._pending.clear()
        if self._open is not None:
            back += [sequence for _, waiting in self._open.reading.values() for sequence in waiting]
            self._open.worker.close()
            self._open = None
        return back

    # ---- requests
    @property
    def waiting(self) -> int:
        """Sequences that wait for the disk."""
        reading = self._open.reading.values() if self._open is not None else ()
        return len(self._early) + sum(len(waiting) for _, waiting in reading)

    def fetch(self, sequence: Sequence, memory: PrefixCache) -> bool:
        """Whether this sequence must wait, since the disk knows more of it than memory; `take` gives it back."""
        if self._open is None or not memory.enabled:
            return False
        if not self._open.known:
            self._early.append(sequence)
            return True
        match = self._open.index.match(sequence.known, sequence.namespace)
        entry = match.snapshot
        if not isinstance(entry, Entry):
            return False
        if match.length < memory.match(sequence.known, sequence.namespace).length + WORTH_TOKENS:
            self._open.worker.touch(entry)
            return False
        waiting = self._open.reading.get(id(entry))
        if waiting is None:
            waiting = self._open.reading[id(entry)] = (entry, [])
            self._open.worker.verify(entry)
        waiting[1].append(sequence)
        return True

    def withdraw(self, id: int) -> Sequence | None:
        """Forget a sequence that waits here."""
        lists = [self._early]
        if self._open is not None:
            lists += [waiting for _, waiting in self._open.reading.values()]
        for waiting in lists:
            for sequence in waiting:
                if sequence.id == id:
                    waiting.remove(sequence)
                    return sequence
        return None

    def disown(self, sequence: Sequence, pinned_from: int) -> list[Sequence]:
        """Remove what this sequence can have been read from, of what is pinned all that `pinned_from` or more of its
        tokens could be taken from; gives back the sequences that waited to read it.
        """
        if self._open is None:
            return []
        back: list[Sequence] = []
        for namespace, least in {sequence.namespace: 0, PINNED: pinned_from}.items():
            least = max(WORTH_TOKENS, least)
            if (writing := self._writing) is not None and writing.namespace == namespace:
                self._spoilt |= common_prefix(writing.tokens, sequence.known) >= least
            for entry in self._open.index.disown(sequence.known, least, namespace):
                if isinstance(entry, Entry):
                    self._open.worker.remove(entry)
                    _, waiting = self._open.reading.pop(id(entry), (entry, []))
                    back += waiting
        return back

    # ---- news
    def take(self, news: News, memory: PrefixCache) -> list[Sequence]:
        """The sequences that need not wait any more."""
        match news:
            case Found(entries):
                return self._found(entries, memory)
            case Verified(entry, whole):
                return self._verified(entry, whole, memory)
            case Written(entry):
                self._written(entry)
        self._write_next()
        return []

    def _found(self, entries: tuple[Entry, ...], memory: PrefixCache) -> list[Sequence]:
        if self._open is not None:
            for entry in entries:
                self._open.index.insert(entry.tokens, entry, entry.namespace)
            self._open.known = True
        early, self._early = self._early, []
        return [sequence for sequence in early if not self.fetch(sequence, memory)]

    def _written(self, entry: Entry | None) -> None:
        self._writing, spoilt, self._spoilt = None, self._spoilt, False
        if entry is not None and self._open is not None and entry.folder.parent == self._open.worker.home:
            if spoilt:
                self._open.worker.remove(entry)
            else:
                self._open.index.insert(entry.tokens, entry, entry.namespace)

    def _verified(self, entry: Entry, whole: bool, memory: PrefixCache) -> list[Sequence]:
        if self._open is None or id(entry) not in self._open.reading:  # another directory's, or disowned meanwhile
            return []
        _, waiting = self._open.reading.pop(id(entry))
        if whole:
            try:
                thawed = self._open.freezer.thaw(entry.arrays, entry.layout, entry.length)
            except BrokenEntry as broken:
                log.get().warning("disk.broken_entry_removed", entry=str(entry.folder), reason=str(broken))
                self._open.worker.remove(entry)
                whole = False
            else:
                memory.insert(entry.tokens, thawed, entry.namespace)
        if not whole:
            self._open.index.discard(entry)
        return waiting

    # ---- writing
    def kept(self, tokens: Tokens, snapshot: Snapshot, namespace: str) -> None:
        """Memory keeps this: it is worth writing if it stays for a moment."""
        if self._open is None or len(tokens) < WORTH_TOKENS or self._open.index.covers(tokens, namespace):
            return
        if not self._pending and not self._writing:
            self._open.worker.call_in(SETTLE_SECONDS)
        self._pending.append(_Pending(tokens, snapshot, namespace, time.monotonic() + SETTLE_SECONDS))
        self._settled.clear()

    def dropped(self, snapshot: Snapshot, *, superfluous: bool) -> None:
        """What memory lets go is not held for the disk's sake."""
        self._pending = deque(pending for pending in self._pending if pending.snapshot is not snapshot)

    def hurry(self) -> None:
        """Write what is pending without waiting any longer."""
        self._hurried = True
        self._write_next()

    def flush(self, seconds: float) -> bool:
        """Wait, on another thread, until nothing is left to write after `hurry`."""
        return self._settled.wait(seconds)

    def _write_next(self) -> None:
        """One at a time: what is written is held in memory beside the budget."""
        while self._pending and not self._writing and self._open is not None:
            if not self._hurried and (rest := self._pending[0].due - time.monotonic()) > 0:
                self._open.worker.call_in(rest)
                return
            pending = self._pending.popleft()
            frozen = self._open.freezer.freeze(pending.snapshot)
            if frozen is not None:
                shortest = pending.snapshot.shortest
                self._open.worker.write(pending.namespace, pending.tokens, shortest, frozen)
                self._writing = pending
        if not self._pending and not self._writing:
            self._settled.set()


@dataclass(frozen=True, slots=True)
class _Superfluous:
    """Takes entries off the disk that longer ones stand for."""

    worker: DiskWorker

    def kept(self, tokens: Tokens, snapshot: Snapshot, namespace: str) -> None: ...

    def dropped(self, snapshot: Snapshot, *, superfluous: bool) -> None:
        if superfluous and isinstance(snapshot, Entry):
            self.worker.remove(snapshot)


def _same(old: DiskSettings, new: DiskSettings) -> bool:
    return (old.path, old.key) == (new.path, new.key)
