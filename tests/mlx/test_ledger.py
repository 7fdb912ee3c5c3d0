"""What is said to be held is what is held, and what is admitted fits."""

import gc
import random
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import load as load_model
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

from appliance.engine.inbox import Arrival
from appliance.engine.ledger import growth, tokens_of
from appliance.engine.loop import Loop
from appliance.engine.mlx import kv
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.batch import Decoding, Row
from appliance.engine.mlx.masking import MaskWorkshop
from appliance.engine.mlx.quantized import QuantizedRectangle, QuantizedRow
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.room import ONE_GROUP, Room
from appliance.engine.scheduler import Scheduler
from appliance.engine.sequence import Sequence
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSettings, EngineSpec, KvForm
from tests.mlx.families import FAMILIES, VOCABULARY, make

KINDS_OF_CACHES = (
    KVCache, RotatingKVCache, BatchKVCache, BatchRotatingKVCache, QuantizedRow, QuantizedRectangle,
)  # fmt: skip
BIG = {"head_dim": 64}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (FAMILIES["llama, plain cache"] | BIG, {}),
    "in 8 bits": (FAMILIES["llama, plain cache"] | BIG, {"kv": KvForm(bits=8)}),
    "in 4 bits after 250 tokens": (
        FAMILIES["llama, plain cache"] | BIG,
        {"kv": KvForm(bits=4, from_token=250)},
    ),
    "sliding": (FAMILIES["gemma3, sliding window"] | BIG | {"sliding_window": 64, "query_pre_attn_scalar": 64}, {}),
}


@pytest.mark.parametrize("pass_bytes", [ONE_GROUP, 50_000], ids=["one group", "several groups"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_said_to_be_held_are_those_that_are_taken_and_planned_with(
    tmp_path: Path, kind: str, pass_bytes: int
) -> None:
    config, more = KINDS[kind]
    settings = EngineSettings(context=2000, concurrency=8, kv_bytes=1 << 30, prefix_bytes=0, stall_target=0.5, **more)
    backend = MlxBackend()
    info, tokenizer = backend.load(
        EngineSpec(backend="mlx", path=str(make(tmp_path / "m", config))), settings, lambda *at: None
    )
    room = Room(padded=True, pass_bytes=pass_bytes)
    scheduler = Scheduler(settings, info.kv_bytes_per_token, PrefixCache(0), room=room)
    loop = Loop(backend, scheduler, lambda events: None)
    prompts = {0: (1, 2), 6: (3,), 12: (4, 5, 6)}
    drawn, most, groups = random.Random(1), 0, 0
    apart = {id(cache) for cache in caches()}
    for turn in range(24):
        loop.turn([arrival(tokenizer, id, drawn) for id in prompts.get(turn, ())])
        if turn % 4 != 3:
            continue
        held = sum(cache.nbytes for cache in caches() if id(cache) not in apart and not cache.empty())
        assert loop.pong(0).gauges.kv_bytes == pytest.approx(held, rel=0.05), turn
        assert held <= 1.05 * scheduler.charged_tokens * info.kv_bytes_per_token, turn
        most, groups = max(most, held), max(groups, len({number for *_, number in backend._decodings._there}))
    assert (groups > 1) == (pass_bytes < ONE_GROUP)
    assert most > 4 * info.kv_bytes_per_token * 40


def caches() -> list[Any]:
    """All there are in this process."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, KINDS_OF_CACHES)]


def arrival(tokenizer: Any, id: int, drawn: random.Random) -> Arrival:
    known = [drawn.randrange(3, VOCABULARY) for _ in range(drawn.randint(40, 300))]
    pipeline = Pipeline(tokenizer, Limits(frozenset(), 1000), prompt_tokens=len(known))
    sampling = Sampling(temperature=0)
    return Arrival(Sequence(id, known, len(known), len(known) + 1000, sampling, pipeline, order=id))


LAYERS, LONG = 8, 1500


@pytest.mark.parametrize("change", ["meet", "join", "leave"])
def test_rows_that_come_or_go_take_the_room_of_one_layer_more(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(
        str(make(tmp_path / "m", FAMILIES["llama, plain cache"] | BIG | {"num_hidden_layers": LAYERS}))
    )[0]
    monkeypatch.setattr(kv, "COPIED_AT_ONCE", 0)
    decoding = Decoding(model, VOCABULARY, MaskWorkshop())
    rows = [long_row(model, id) for id in range(4)]
    held = kv.nbytes(rows[0].caches or [])
    first = {"meet": [], "join": rows[:3], "leave": rows}[change]
    decoding._gather(first)
    mx.eval([cache.state for cache in decoding.caches])
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    after = rows[:3] if change == "leave" else rows
    for row in rows[3:] if change == "leave" else ():
        decoding.drop(row)
    decoding._gather(after)
    mx.eval([cache.state for cache in decoding.caches])  # what is left to copy
    most = max(before, mx.get_active_memory())
    assert mx.get_peak_memory() <= most + 1.5 * 4 * held / LAYERS


def long_row(model: Any, id: int) -> Row:
    caches = kv.fresh(model)
    for cache in caches:
        cache.keys, cache.values = mx.ones((1, 2, LONG, 64)), mx.ones((1, 2, LONG, 64))
        cache.offset = LONG
    mx.eval([cache.state for cache in caches])
    sample = SampleRow(Sampling(temperature=0), [3] * LONG, LONG, frozenset())
    return Row(id, sample, caches, LONG, mx.array([3], dtype=mx.int32))


@pytest.mark.parametrize(
    ("lengths", "padded", "tokens"),
    [
        pytest.param([], True, 0, id="nothing"),
        pytest.param([10, 20], False, 30, id="rows of their own"),
        pytest.param([100], True, 132, id="one row has room to grow"),
        pytest.param([100, 800], True, 2 * 900, id="as long as the longest"),
        pytest.param([100_000], True, 101_024, id="growth is bounded"),
    ],
)
def test_rows_are_charged_the_rectangle_they_take(lengths: list[int], padded: bool, tokens: int) -> None:
    assert tokens_of(lengths, padded=padded) == tokens


def test_growth_is_an_eighth_within_bounds() -> None:
    assert [growth(length) for length in (0, 256, 800, 100_000)] == [32, 32, 100, 1024]
