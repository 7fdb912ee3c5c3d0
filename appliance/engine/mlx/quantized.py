"""Keys and values in fewer bits: of one row, and of a left-padded rectangle of rows, as mlx-lm's attention takes it.

mlx-lm has the cache of one row. What it lacks is the batch: the same operations as its BatchKVCache, on triples of
packed numbers, scales and biases instead of one array. Every token is quantized alone, so a row in a batch holds what
it holds alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import KVCache, QuantizedKVCache, dynamic_roll

from appliance.vocab.spec import KvForm

Triple = tuple[mx.array, mx.array, mx.array]  # packed numbers, scales, biases: (rows, heads, tokens, ·)


class QuantizedRow(QuantizedKVCache):  # type: ignore[misc]
    """One row: mlx-lm's cache, which also says its size, is copied, and joins others."""

    def size(self) -> int:
        return int(self.offset)

    def copy(self, drop: int) -> "QuantizedRow":
        """Without the last `drop` tokens and without room to grow; no array is shared."""
        kept = QuantizedRow(self.group_size, self.bits)
        if self.offset > drop:
            end = kept.offset = self.offset - drop
            kept.keys, kept.values = (
                tuple(mx.contiguous(part[..., :end, :]) for part in triple) for triple in (self.keys, self.values)
            )
        return kept

    @classmethod
    def merge(cls, caches: "Sequence[QuantizedRow]") -> "QuantizedRectangle":
        return QuantizedRectangle.of(caches)


def quantized(cache: KVCache, form: KvForm) -> QuantizedRow:
    """A row's exact keys and values in fewer bits."""
    row = QuantizedRow(form.group, form.bits)
    if cache.keys is not None:
        row.offset = cache.offset
        row.keys, row.values = (
            mx.quantize(part[..., : cache.offset, :], group_size=form.group, bits=form.bits)
            for part in (cache.keys, cache.values)
        )
    return row


def exact(row: QuantizedRow) -> KVCache:
    """What a row's numbers stand for."""
    cache = KVCache()
    if row.keys is not None:
        cache.offset = row.offset
        cache.keys, cache.values = (
            mx.dequantize(*(part[..., : row.offset, :] for part in triple), group_size=row.group_size, bits=row.bits)
            for triple in (row.keys, row.values)
        )
    return cache


class QuantizedRectangle:
    """Rows of several lengths, filled up at their left. See mlx-lm's BatchKVCache, whose protocol this is."""

    step = 256

    def __init__(self, group_size: int, bits: int, left_padding: Sequence[int]) -> None:
        self.group_size, self.bits = group_size, bits
        self.keys: Triple | None = None
        self.values: Triple | None = None
        self.left_padding = mx.array(left_padding)
        self.offset = mx.array([-padding for padding in left_padding])
        self._idx = 0
        self._right_padding: mx.array | None = None

    @classmethod
    def of(cls, rows: Sequence[QuantizedRow]) -> Self:
        """Copies of what the rows hold."""
        longest = max(row.offset for row in rows)
        padding = [longest - row.offset for row in rows]
        made = cls(rows[0].group_size, rows[0].bits, padding)
        if longest:
            made.keys = _stacked([row.keys for row in rows], [row.offset for row in rows], longest)
            made.values = _stacked([row.values for row in rows], [row.offset for row in rows], longest)
            made.offset = made.offset + longest
            made._idx = longest
        return made

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Triple, Triple]:
        start, end = self._idx, self._idx + keys.shape[2]
        added = [mx.quantize(part, group_size=self.group_size, bits=self.bits) for part in (keys, values)]
        self.keys, self.values = (
            self._put(held, new, start, end) for held, new in zip((self.keys, self.values), added, strict=True)
        )
        self.offset = self.offset + keys.shape[2]
        self._idx = end
        return self.keys_and_values()

    def _put(self, held: Triple | None, new: Triple, start: int, end: int) -> Triple:
        if held is None or end > held[0].shape[2]:
            room = -(-(end - start) // self.step) * self.step
            held = _each(lambda n: _grown(held[n] if held else None, new[n], start, room))
        for part, more in zip(held, new, strict=True):
            part[..., start:end, :] = more
        return held

    def keys_and_values(self) -> tuple[Triple, Triple]:
        return self._until(self._idx)

    def _until(self, end: int) -> tuple[Triple, Triple]:
        assert self.keys is not None and self.values is not None
        keys, values = self.keys, self.values
        return _each(lambda n: keys[n][..., :end, :]), _each(lambda n: values[n][..., :end, :])

    def _change(self, change: Callable[[mx.array], mx.array]) -> None:
        if (keys := self.keys) is not None and (values := self.values) is not None:
            self.keys = _each(lambda n: change(keys[n]))
            self.values = _each(lambda n: change(values[n]))

    def make_mask(self, N: int, return_array: bool = False, **more: Any) -> mx.array:
        return create_causal_mask(N, offset=self._idx, left_padding=self.left_padding, **more)

    def prepare(self, *, right_padding: Sequence[int] | None = None, **lengths: Any) -> None:
        """The tokens that come now, or came last, are padding at their right in so many places."""
        if right_padding is not None and max(right_padding) > 0:
            self._right_padding = mx.array(right_padding)

    def finalize(self) -> None:
        """Turn padding at the right into padding at the left."""
        if (padding := self._right_padding) is not None:
            self._change(lambda part: dynamic_roll(part, padding[:, None], axis=2))
            self.offset = self.offset - padding
            self.left_padding = self.left_padding + padding
            self._right_padding = None

    def filter(self, rows: mx.array) -> None:
        """Keep these rows, and no more padding than they need."""
        self._change(lambda part: part[rows])
        self.offset, self.left_padding = self.offset[rows], self.left_padding[rows]
        if (spare := min(self.left_padding.tolist())) > 0:
            self._change(lambda part: part[..., spare:, :])
            self._idx -= spare
            self.left_padding = self.left_padding - spare

    def extend(self, other: "QuantizedRectangle") -> None:
        """Add another's rows."""
        end = max(self._idx, other._idx)
        if end:
            parts = zip((self.keys, self.values), (other.keys, other.values), strict=True)
            self.keys, self.values = (
                _joined(self._padded(ours, theirs, end), other._padded(theirs, ours, end)) for ours, theirs in parts
            )
        paddings = [cache.left_padding + (end - cache._idx) for cache in (self, other)]
        self.left_padding = mx.concatenate(paddings)
        self.offset = mx.concatenate([self.offset, other.offset])
        self._idx = end

    def _padded(self, held: Triple | None, like: Triple | None, end: int) -> Triple:
        """Filled up at the left to a width; of rows that hold nothing yet, zeros like another's."""
        if held is None:
            assert like is not None
            rows = self.offset.shape[0]
            return _each(lambda n: mx.zeros((rows, like[n].shape[1], end, like[n].shape[3]), dtype=like[n].dtype))
        pad = [(0, 0), (0, 0), (end - self._idx, 0), (0, 0)]
        return _each(lambda n: mx.pad(held[n][..., : self._idx, :], pad))

    def extract(self, place: int) -> QuantizedRow:
        """A row of its own, sharing nothing."""
        start = self.left_padding.tolist()[place]
        row = QuantizedRow(self.group_size, self.bits)
        row.keys, row.values = (
            tuple(mx.contiguous(part[place : place + 1, :, start:]) for part in triple)
            for triple in self._until(self._idx)
        )
        row.offset = self._idx - start
        return row

    def is_trimmable(self) -> bool:
        return True

    def trim(self, tokens: int) -> int:
        tokens = min(self._idx, tokens)
        self._idx -= tokens
        self.offset = self.offset - tokens
        return tokens

    @property
    def state(self) -> tuple[Any, ...]:
        return self.keys, self.values, self.offset, self.left_padding

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for triple in (self.keys, self.values) if triple for part in triple)

    def size(self) -> int:
        return self._idx

    def empty(self) -> bool:
        return self.keys is None


def _each(part: Callable[[int], mx.array]) -> Triple:
    return part(0), part(1), part(2)


def _grown(held: mx.array | None, like: mx.array, used: int, room: int) -> mx.array:
    fresh = mx.zeros((*like.shape[:2], room, like.shape[3]), dtype=like.dtype)
    return fresh if held is None else mx.concatenate([held[..., :used, :], fresh], axis=2)


def _joined(one: Triple, other: Triple) -> Triple:
    return _each(lambda n: mx.concatenate([one[n], other[n]]))


def _stacked(rows: Sequence[Triple | None], lengths: Sequence[int], longest: int) -> Triple:
    some = next(row for row in rows if row is not None)

    def stack(n: int) -> mx.array:
        _, heads, _, width = some[n].shape
        out = mx.zeros((len(rows), heads, longest, width), dtype=some[n].dtype)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            if row is not None:
                out[place : place + 1, :, longest - length :] = row[n][..., :length, :]
        return out

    return _each(stack)
