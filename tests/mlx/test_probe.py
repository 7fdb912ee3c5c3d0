"""What a model's own code does not take is found when it is loaded, and said."""

from pathlib import Path

import pytest

from appliance.engine.backend import Batch
from appliance.engine.mlx.backend import MlxBackend
from appliance.vocab.spec import EngineSpec
from tests.mlx.driving import SETTINGS
from tests.mlx.families import FAMILIES, MORE, make
from tests.mlx.test_batch import prefill

ALONE = {
    "gemma2, one row at a time": "its own code takes one row at a time (",
    "gpt-bigcode, one row at a time": "its own code takes one row at a time (",
    "afm7, places for positions": "its own code takes places in the cache for positions",
    "minimax-m3, blocks of places": "its own code takes places in the cache for positions",
    "recurrent-gemma, states and windows": "its own code begins a sequence where there is no state at all",
    "llama4, chunks": "ChunkedKVCache, KVCache cannot be batched",
}
KINDS = FAMILIES | MORE


@pytest.mark.parametrize("kind", KINDS)
def test_only_rows_that_cannot_share_a_pass_are_decoded_one_at_a_time(tmp_path: Path, kind: str) -> None:
    engine = MlxBackend()
    info, _ = engine.load(
        EngineSpec(backend="mlx", path=str(make(tmp_path, KINDS[kind]))), SETTINGS, lambda phase, part: None
    )
    notes = [note for note in info.notes if note.startswith("decodes one sequence at a time: ")]
    assert (len(notes), info.padded) == ((1, False) if kind in ALONE else (0, True))
    assert ALONE.get(kind, "") in "".join(notes)


def test_a_chunk_whose_front_is_gone_stands_for_no_shorter_prefix(tmp_path: Path) -> None:
    engine = MlxBackend()
    spec = EngineSpec(backend="mlx", path=str(make(tmp_path, MORE["llama4, chunks"])))
    engine.load(spec, SETTINGS, lambda phase, part: None)
    (whole,) = prefill(engine, 1, [5] * 30, 30)
    assert whole is not None
    assert whole.shortest == 0  # nothing is let go before the next pass
    step = engine.launch(Batch((1,), ()))
    step.begin()
    step.wait()
    later = engine.snapshot(1, 31)
    assert later is not None
    assert later.shortest == 31
