"""Chunks of prompts: what their evaluation computes, which go together, and what that takes."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from appliance.engine.backend import Chunk
from appliance.engine.mlx import kv
from appliance.engine.mlx.batch import Row
from appliance.engine.mlx.prefill import COPIED_LAYERS, WASTE, Piece, alike, compute, prefill
from appliance.engine.mlx.rows import SampleRow
from appliance.vocab.request import Sampling
from tests.mlx.families import FAMILIES, make


def test_a_chunk_does_not_wait_for_one_that_is_launched_after_it(tmp_path: Path) -> None:
    from mlx_lm import load

    model = load(str(make(tmp_path / "llama", FAMILIES["llama, plain cache"])))[0]
    sample = SampleRow(Sampling(), list(range(16)), 16, frozenset())
    row = Row(1, sample, kv.fresh(model), 0, mx.array([15], dtype=mx.int32))
    first = prefill(model, [(row, Chunk(1, 0, list(range(8)), False))], kv.Batching.PADDED)
    prefill(model, [(row, Chunk(1, 8, list(range(8, 15)), True))], kv.Batching.PADDED)
    (layers,) = first  # of its only row
    for keys, *_ in layers:  # type: ignore[attr-defined]
        assert np.any(np.array(keys[..., :8, :]))
        assert not np.any(np.array(keys[..., 8:, :]))


LAYERS, PAST, CHUNK = 12, 1024, 16


def row(id: int, caches: kv.Caches, past: int, layer: mx.array) -> Row:
    """One that has this much of a past, the same in every layer, in memory of its own."""
    for cache in caches:
        if past:
            cache.update_and_fetch(layer[..., :past, :] + 1, layer[..., :past, :] + 1)
    mx.eval([cache.state for cache in caches])
    sample = SampleRow(Sampling(), [1] * (past + CHUNK + 1), past + CHUNK + 1, frozenset())
    return Row(id, sample, caches, past, mx.array([1], dtype=mx.int32))


def piece(row: Row, tokens: int = CHUNK) -> Piece:
    return row, Chunk(row.id, row.computed, [1] * tokens, True)


def test_rows_whose_chunks_are_computed_together_are_copied_a_few_layers_at_a_time(tmp_path: Path) -> None:
    from mlx_lm import load

    model = load(str(make(tmp_path / "llama", FAMILIES["llama, plain cache"] | {"num_hidden_layers": LAYERS})))[0]
    layer = mx.random.normal((1, 2, PAST, 16))
    rows = [row(id, kv.fresh(model), PAST, layer) for id in range(8)]
    held = kv.nbytes([cache for row in rows for cache in row.caches or ()])
    state = prefill(model, [piece(row) for row in rows], kv.Batching.PADDED)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    compute(state)
    mx.eval(state)
    scores = 8 * 4 * CHUNK * (PAST + CHUNK) * 4  # bytes of attention in a layer; a CPU holds a few
    most = COPIED_LAYERS / LAYERS * 1.1 * held + 4 * scores
    assert mx.get_peak_memory() - before <= most < held  # 1.2 of it where no order is kept
    assert all(row.computed == PAST + CHUNK for row in rows)


MIB = 1 << 20


@pytest.mark.parametrize(
    ("pasts", "chunks", "groups"),
    [
        pytest.param([0] * 16, [64] * 16, [16], id="new prompts"),
        pytest.param([1] * 16, [64] * 16, [16], id="as much as may be copied"),
        pytest.param([2] * 16, [64] * 16, [8, 8], id="more than may be copied"),
        pytest.param([17] * 3, [64] * 3, [1, 1, 1], id="each too large"),
        pytest.param([9, 0, 0, 0], [64] * 4, [1, 3], id="one with a long past among short ones"),
        pytest.param([0, 0, 0, 9], [64, 64, 64, 60], [3, 1], id="the same with a shorter chunk"),
        pytest.param([0] * 4, [64, 64, 20, 20], [2, 2], id="padding in the chunks"),
    ],
)
def test_chunks_go_together_as_far_as_padding_and_copies_allow(
    pasts: list[int], chunks: list[int], groups: list[int]
) -> None:
    """Pasts in MiB of a layer."""
    layer = mx.zeros((1, 1, 17 * 1024, 128))
    rows = [row(id, [KVCache(), KVCache()], past * 1024, layer) for id, past in enumerate(pasts)]
    pieces = [piece(row, chunk) for row, chunk in zip(rows, chunks, strict=True)]
    assert kv.nbytes(rows[0].caches[:1]) == pasts[0] * MIB  # type: ignore[index]
    assert [len(group) for group in alike(pieces, WASTE)] == groups
