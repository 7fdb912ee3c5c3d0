"""Keys and values of one sequence: made fresh, copied into a snapshot, restored from one.

mlx-lm has a cache class per kind of attention. What all of them share is used here: `state`, `is_trimmable`, `trim`,
and, for those that can be batched, `merge`.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import (
    BatchKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from appliance.engine.ledger import growth
from appliance.engine.mlx.quantized import QuantizedRectangle, QuantizedRow, exact, quantized
from appliance.vocab.spec import KvForm

Caches = list[Any]  # one of mlx-lm's cache objects per layer

COPIED_AT_ONCE = 64 << 20
"""Bytes that may be copied in any order, while the device is busy with other things."""


@dataclass(frozen=True, slots=True)
class KVSnapshot:
    """A copy of a prefix, `length` tokens long; its arrays are never written. Where rows are held in fewer bits from
    `packed_from` tokens on, what came before is exact no more.
    """

    caches: Caches
    length: int
    nbytes: int
    packed_from: int = 0

    @property
    def shortest(self) -> int:
        """See Snapshot."""
        if not trimmable(self.caches):
            return self.length
        return self.packed_from if self.length > self.packed_from and is_packed(self.caches) else 0


def fresh(model: nn.Module) -> Caches:
    """Empty caches, as the model wants them."""
    return make_prompt_cache(model)


class Batching(Enum):
    """What a model's caches allow of several sequences in one pass."""

    NONE = "one sequence at a time"
    EQUAL = "chunks of equal length"  # a recurrent state would run on through padding
    PADDED = "chunks of any length"


def batching(caches: Caches) -> Batching:
    parts = leaves(caches)
    if not all(hasattr(leaf, "merge") for leaf in parts):
        return Batching.NONE
    return Batching.PADDED if all(isinstance(leaf, KVCache | RotatingKVCache) for leaf in parts) else Batching.EQUAL


_CUT_FREELY = (KVCache, BatchKVCache, QuantizedRow, QuantizedRectangle)


def rolls_back(caches: Caches) -> bool:
    """Whether every row of a batch can be cut back to a length of its own, at any length."""
    return all(isinstance(leaf, _CUT_FREELY) for leaf in leaves(caches))


def roll_back(caches: Caches, drop: Sequence[int]) -> None:
    """Forget the last `drop` tokens of each row. What all rows forget is free; the rest is rolled to the left end of
    the rectangle, where it counts as padding.
    """
    common = min(drop)
    rest = [tokens - common for tokens in drop]
    for cache in caches:
        if common:
            cache.trim(common)
        if any(rest):
            cache.prepare(right_padding=rest)
            cache.finalize()


def copy_by_layers(caches: Caches) -> None:
    """Make large copies that were asked for layer after layer: what a layer held before is free when the next is
    copied, so that rows which join or leave take the room of one layer more, not of all once again.
    """
    if nbytes(caches) > COPIED_AT_ONCE:
        for cache in caches:
            mx.eval(cache.state)


def trimmable(caches: Caches) -> bool:
    """Whether these can be cut back to any length."""
    return all(_trimmable(leaf) for leaf in leaves(caches))


def _trimmable(cache: Any) -> bool:
    """mlx-lm says so of two kinds that then lack what they have let go, or keep what they should not."""
    if isinstance(cache, ChunkedKVCache):
        return cache.start_position == 0
    return type(cache) is not ConcatenateKVCache and bool(cache.is_trimmable())


def is_packed(caches: Caches) -> bool:
    return any(isinstance(leaf, QuantizedRow) for leaf in leaves(caches))


def grow_by_parts(caches: Caches, length: int) -> None:
    """Let caches of `length` tokens grow by an eighth at a time. The fixed 256 tokens of mlx-lm would be copied with
    every row that joins or leaves, which for short rows is most of the copy.
    """
    step = growth(length)
    for leaf in leaves(caches):
        if hasattr(leaf, "step"):
            leaf.step = step


def share_places(caches: Caches) -> None:
    """Let all layers of a batch have one array of how many tokens each row has, which each holds for itself: what is
    computed from it, such as rotary angles, is then seen to be the same. None of them writes into it.
    """
    plain = [leaf for leaf in leaves(caches) if type(leaf) is BatchKVCache]
    for leaf in plain[1:]:
        if leaf._idx == plain[0]._idx:
            leaf.offset = plain[0].offset


def in_form(caches: Caches, form: KvForm | None) -> Caches:
    """Those that can be, in this form; the others (windows, states) have but one."""
    return [_in_form(cache, form) for cache in caches]


def _in_form(cache: Any, form: KvForm | None) -> Any:
    if isinstance(cache, CacheList):
        return CacheList(*(_in_form(part, form) for part in cache.caches))
    if isinstance(cache, QuantizedRow):
        if form is not None and (cache.bits, cache.group_size) == (form.bits, form.group):
            return cache
        cache = exact(cache)
    return quantized(cache, form) if form is not None and type(cache) is KVCache else cache


def packed(stored: KVSnapshot, form: KvForm) -> KVSnapshot:
    """A snapshot in fewer bits."""
    caches = in_form(stored.caches, form)
    return KVSnapshot(caches, stored.length, nbytes(caches))


def nbytes(caches: Caches) -> int:
    return sum(cache.nbytes for cache in caches if not cache.empty())


def bytes_per_token(caches: Caches) -> int:
    """Growth per token: plain caches grow for ever; the others are bounded and charged as if they did."""
    total = 0
    for leaf in leaves(caches):
        for held in (getattr(leaf, "keys", None), getattr(leaf, "values", None)):
            parts = held if isinstance(held, tuple | list) else [held]
            total += sum(a.shape[1] * a.shape[3] * a.itemsize for a in parts if isinstance(a, mx.array))
    return total


def snapshot(caches: Caches, computed: int, length: int) -> KVSnapshot | None:
    """A copy of the first `length` of `computed` tokens, or None where these caches cannot be cut back to that."""
    if length > computed or (length < computed and not trimmable(caches)):
        return None
    copies = [_copy(cache, computed - length) for cache in caches]
    return KVSnapshot(copies, length, nbytes(copies))


def restore(stored: KVSnapshot, length: int) -> Caches:
    """Caches of their own that hold the first `length` tokens of a snapshot. A plain one has no room beyond them: it
    copies them when it grows by the first token that is added, so what it begins with needs no copy.
    """
    return [_copy(cache, stored.length - length, apart=False) for cache in stored.caches]


def _copy(cache: Any, drop: int, *, apart: bool = True) -> Any:
    """A copy without the last `drop` tokens. Slices of a plain cache leave out its room to grow; `apart`, they become
    arrays that hold nothing else.
    """
    if type(cache) is KVCache:
        kept = KVCache()
        if cache.offset > drop:
            kept.offset = cache.offset - drop
            held = [part[..., : kept.offset, :] for part in (cache.keys, cache.values)]
            kept.keys, kept.values = map(mx.contiguous, held) if apart else held
        return kept
    if isinstance(cache, QuantizedRow):
        return cache.copy(drop)
    kept = copy.deepcopy(cache)
    if drop:
        kept.trim(drop)
    return kept


def kinds(caches: Caches) -> str:
    """The names of their classes, for people."""
    return ", ".join(sorted({type(cache).__name__ for cache in caches}))


def leaves(caches: Caches) -> list[Any]:
    """The caches themselves, out of their lists."""
    flat: Caches = []
    for cache in caches:
        flat.extend(leaves(list(cache.caches)) if isinstance(cache, CacheList) else [cache])
    return flat
