"""Computes prompt chunks: those of like length in one padded pass, which keeps the device busier than one by one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import mlx.core as mx
from mlx.utils import tree_map

from appliance.engine.backend import Chunk
from appliance.engine.mlx.adapters import Forward
from appliance.engine.mlx.batch import Row, merged
from appliance.engine.mlx.kv import COPIED_AT_ONCE, Batching, Caches, nbytes
from appliance.engine.mlx.load import on_cpu
from appliance.engine.mlx.scores import scored

Piece = tuple[Row, Chunk]

WASTE = 0.2
"""The part of a pass that may be padding, where the model's caches allow any."""
COPIED_LAYERS = 4
"""So many layers of a rectangle are in memory beside the rows' own at most: it is copied together and apart again,
layer after layer. Measured were 3.7."""


def prefill(model: Forward, pieces: Sequence[Piece], kind: Batching) -> list[object]:
    """Lengthen the rows' caches by their chunks; gives the arrays whose evaluation computes them.

    Only caches are evaluated, so the output layer is never computed for a prompt.
    """
    state: list[object] = []
    filled = [piece for piece in pieces if piece[1].tokens and piece[0].scores is None]
    for row, chunk in pieces:
        if row.scores is not None and chunk.tokens:
            row.scores += scored(model, chunk, row.sample.known, row.caches or [], row.sample.rules.scores or 0)
            row.computed += len(chunk.tokens)
    for group in _groups(filled, kind):
        _together(model, group) if len(group) > 1 else _alone(model, *group[0])
        for row, chunk in group:
            row.computed += len(chunk.tokens)
        state += _state([row.caches or [] for row, _ in group])
    return state


def _state(rows: list[Caches]) -> Iterable[object]:
    """Of one row as a whole, of several by layers: see `compute`."""
    parts = rows if len(rows) == 1 else zip(*rows, strict=True)
    return (tree_map(_as_it_is, [cache.state for cache in part]) for part in parts)


def compute(state: Sequence[object]) -> None:
    """Have it computed in its order: what rows share in a layer is free again when the next layers need theirs. A GPU
    goes on by itself, as far ahead as MLX lets it; on a CPU, where it is waited for anyway, nothing is begun ahead.
    """
    for part in state:
        mx.eval(part) if on_cpu() else mx.async_eval(part)


def parted(chunk: Chunk, most: int | None) -> tuple[Chunk, Chunk | None]:
    """Its first `most` tokens at most, and the rest if there is any."""
    if most is None or len(chunk.tokens) <= most:
        return chunk, None
    first = replace(chunk, tokens=chunk.tokens[:most], last=False)
    return first, replace(chunk, start=chunk.start + most, tokens=chunk.tokens[most:])


def _as_it_is(part: object) -> object:
    """Caches write into their arrays in place: without this a chunk would wait for those launched after it."""
    return part[...] if isinstance(part, mx.array) else part


def _groups(pieces: Sequence[Piece], kind: Batching) -> Iterable[list[Piece]]:
    match kind:
        case Batching.NONE:
            return ([piece] for piece in pieces)
        case Batching.EQUAL:
            return alike(pieces, waste=0)
        case Batching.PADDED:
            return alike(pieces, waste=WASTE)


def alike(pieces: Sequence[Piece], waste: float) -> Iterator[list[Piece]]:
    """Groups, longest chunks first, in which no more than `waste` of the rectangle is padding, and whose copies are
    no larger than what may be copied at once: a row with a long past is computed alone.
    """
    group: list[Piece] = []
    pasts = {row: _past(row) for row, _ in pieces}
    for piece in sorted(pieces, key=lambda piece: (-len(piece[1].tokens), -pasts[piece[0]])):
        together = [*group, piece]
        real = sum(len(chunk.tokens) for _, chunk in together)
        wasteful = real < (1 - waste) * len(together[0][1].tokens) * len(together)
        copied = COPIED_LAYERS * max(pasts[row] for row, _ in together) * len(together)
        if group and (wasteful or copied > COPIED_AT_ONCE):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _past(row: Row) -> int:
    """Bytes of what it has in the largest layer."""
    return max((nbytes([cache]) for cache in row.caches or ()), default=0)


def _alone(model: Forward, row: Row, chunk: Chunk) -> None:
    model(mx.array([chunk.tokens], dtype=mx.int32), cache=row.caches)


def _together(model: Forward, group: list[Piece]) -> None:
    """Tokens stand at the left of the rectangle while they are computed, keys and values at the right afterwards."""
    lengths = [len(chunk.tokens) for _, chunk in group]
    padding = [max(lengths) - length for length in lengths]
    caches: Caches = merged([row for row, _ in group])
    if any(padding):
        for cache in caches:
            cache.prepare(lengths=lengths, right_padding=padding)
    tokens = [[*chunk.tokens, *[0] * pad] for (_, chunk), pad in zip(group, padding, strict=True)]
    model(mx.array(tokens, dtype=mx.int32), cache=caches)
    if any(padding):
        for cache in caches:
            cache.finalize()
    for place, (row, _) in enumerate(group):
        row.caches = [cache.extract(place) for cache in caches]
