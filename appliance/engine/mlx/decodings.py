"""Which rows decode in which batch, and when a row is packed in fewer bits."""

from collections.abc import Callable, Iterable, Sequence

from appliance.engine.mlx.batch import Decoding, Row
from appliance.engine.mlx.kv import Caches
from appliance.engine.mlx.kv_store import KVStore

Group = tuple[str, bool, int]
"""Rows share a batch only if adapter, form of keys and values, and the scheduler's group are the same."""


def alike(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows by group."""
    apart: dict[Group, list[Row]] = {}
    for row in rows:
        apart.setdefault(_group(row), []).append(row)
    return list(apart.values())


def _group(row: Row) -> Group:
    return row.adapter, row.packed, row.group


class Decodings:
    """The decode batches of one model, each made by `make` for an adapter: one for every group, or, unless they are
    `shared`, one for every row.
    """

    def __init__(self, make: Callable[[str], Decoding], store: KVStore, *, shared: bool) -> None:
        self._make, self._store, self._shared = make, store, shared
        self._there: dict[Group | int, Decoding] = {}

    @property
    def caches(self) -> list[Caches]:
        return [decoding.caches for decoding in self._there.values()]

    def of(self, row: Row) -> Decoding:
        """The one it belongs to."""
        key = _group(row) if self._shared else row.id
        if key not in self._there:
            self._there[key] = self._make(row.adapter)
        return self._there[key]

    def together(self, rows: Iterable[Row]) -> list[list[Row]]:
        """Those that share a pass."""
        return alike(rows) if self._shared else [[row] for row in rows]

    def drop(self, row: Row) -> None:
        """Let a row go that will not come back."""
        self.of(row).drop(row)
        self._forget_empty()

    def place(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        """Have rows in the groups of these numbers from now on; those that have become long enough are packed."""
        if self._store.packs_later:  # what was guessed right decides how long rows are
            for decoding in {self.of(row) for row in rows if not row.packed}:
                decoding.settle()
        leaving: dict[Decoding, list[Row]] = {}
        placed = list(zip(rows, numbers or [row.group for row in rows], strict=True))
        for row, number in placed:
            if number != row.group or self._packs(row):
                leaving.setdefault(self.of(row), []).append(row)
        for decoding, gone in leaving.items():
            decoding.release(gone)
        for row, number in placed:
            row.group = number
            self.pack(row)
        if leaving:
            self._forget_empty()

    def pack(self, row: Row) -> None:
        """Have a row that stands alone in fewer bits, if it is long enough."""
        if self._packs(row):
            row.caches, row.packed = self._store.pack(row.caches or []), True

    def _packs(self, row: Row) -> bool:
        return not row.packed and self._store.packs(row.computed)

    def _forget_empty(self) -> None:
        self._there = {key: decoding for key, decoding in self._there.items() if not decoding.empty}
