"""What a chunk's evaluation computes: that chunk."""

from pathlib import Path

import mlx.core as mx
import numpy as np

from appliance.engine.backend import Chunk
from appliance.engine.mlx import kv
from appliance.engine.mlx.batch import Row
from appliance.engine.mlx.prefill import prefill
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
    (layers,) = first
    for keys, *_ in layers:  # type: ignore[attr-defined]
        assert np.any(np.array(keys[..., :8, :]))
        assert not np.any(np.array(keys[..., 8:, :]))
