"""Keys and values in fewer bits: a row in a batch holds and says what it holds and says alone."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import BatchKVCache, KVCache

from appliance.engine import disk_entry
from appliance.engine.backend import Batch, Chunk, Opening
from appliance.engine.mlx import kv
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.quantized import QuantizedRectangle, QuantizedRow, exact, quantized
from appliance.errors import LoadFailed
from appliance.vocab.request import Sampling
from appliance.vocab.spec import DiskSettings, EngineSettings, EngineSpec, KvForm
from tests.mlx.driving import SETTINGS, Job, run
from tests.mlx.families import FAMILIES, MORE, make
from tests.mlx.test_batch import jobs, prefill, prompts

HEADS, WIDTH, GROUP = 2, 32, 32
DISK = DiskSettings(path="/nowhere", bytes=1, ttl=1, key="weights")
KINDS = {
    "plain": FAMILIES["llama, plain cache"] | {"head_dim": 32},
    "hybrid": {
        "model_type": "lfm2", "norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3, "block_dim": 64,
        "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
        "num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"],
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS, ids=list(KINDS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("kind"), KINDS[request.param])


def engine_of(directory: Path, **settings: Any) -> MlxBackend:
    built = MlxBackend()
    changed = {**{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__}, **settings}
    spec = EngineSpec(backend="mlx", path=str(directory))
    built.load(spec, EngineSettings(**changed), lambda phase, fraction: None)
    return built


FORMS = {
    "8 bits": KvForm(bits=8, group=GROUP),
    "4 bits": KvForm(bits=4, group=GROUP),
    "from a token on": KvForm(bits=8, group=GROUP, from_token=20),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize("stagger", [0, 1], ids=["all at once", "joining mid-decode"])
def test_rows_that_share_a_batch_give_the_tokens_they_give_alone(
    checkpoint: Path, form: KvForm, stagger: int
) -> None:
    engine = engine_of(checkpoint, kv=form)
    together = jobs(stagger)
    run(engine, together)
    for job in together:
        alone = replace(job, at=0, got=[])
        run(engine, [alone])
        assert job.text == alone.text, job.sampling


def test_a_long_row_is_packed_and_a_short_one_is_not_until_it_has_grown(checkpoint: Path) -> None:
    engine = engine_of(checkpoint, kv=FORMS["from a token on"])
    (short,), (long,) = prefill(engine, 1, [5] * 10, 10), prefill(engine, 2, [5] * 30, 30)
    assert (packs(short), packs(long)) == (False, True)
    for _ in range(12):
        step = engine.launch(Batch((1, 2), ()))
        step.begin()
        step.wait()
    assert packs(engine.snapshot(1, 22))


@pytest.mark.parametrize("chunk", [1, 7, 19, 20, 21, 40], ids=lambda tokens: f"{tokens} at a time")
def test_up_to_where_rows_are_packed_they_hold_what_exact_rows_hold(tmp_path: Path, chunk: int) -> None:
    """At every layer: what is above the first is made of what the first looked at."""
    directory = make(tmp_path / "plain", KINDS["plain"])
    form = FORMS["from a token on"]
    prompt = prompts(1, seed=7)[0] * 3
    (whole,) = prefill(engine_of(directory), 1, prompt[: form.from_token], form.from_token)
    assert isinstance(whole, kv.KVSnapshot)
    engine = engine_of(directory, kv=form)
    engine.open(Opening(1, [*prompt, 5], 0, None, Sampling(temperature=0), len(prompt) + 1))
    for start in range(0, len(prompt), chunk):
        part = prompt[start : start + chunk]
        step = engine.launch(Batch((), (Chunk(1, start, part, last=start + chunk >= len(prompt)),)))
        step.begin()
        step.wait()
    less = engine.snapshot(1, form.from_token)
    assert isinstance(less, kv.KVSnapshot)
    for exactly, ours in zip(whole.caches, less.caches, strict=True):
        numbers = [triple[0] for cache in (quantized(exactly, form), ours) for triple in (cache.keys, cache.values)]
        for a, b in zip(numbers[:2], numbers[2:], strict=True):
            assert (a == b).mean() > 0.99  # noise may have rounded one of them to the next


def test_a_packed_row_stands_for_no_shorter_prefix_than_rows_that_are_packed(checkpoint: Path) -> None:
    engine = engine_of(checkpoint, kv=FORMS["from a token on"])
    exactly, least, longer = prefill(engine, 1, [5] * 30, 19, 20, 30)
    (short,) = prefill(engine, 2, [5] * 20, 20)
    assert short is not None and longer is not None
    assert (packs(short), packs(longer)) == (False, True)
    if kv.trimmable(longer.caches):
        assert exactly is None
        assert least is not None
        assert (least.shortest, longer.shortest, short.shortest) == (0, 20, 0)


def packs(stored: Any) -> bool:
    return any(isinstance(cache, QuantizedRow) for cache in stored.caches)


def test_what_is_held_takes_the_room_it_should(checkpoint: Path) -> None:
    prompt = [7] * 64
    (whole,) = prefill(engine_of(checkpoint), 1, prompt, 64)
    for form, most in ((FORMS["8 bits"], 0.33), (FORMS["4 bits"], 0.20)):  # scales and biases are float32 here
        (less,) = prefill(engine_of(checkpoint, kv=form), 1, prompt, 64)
        ratio = attention_bytes(less) / attention_bytes(whole)
        assert ratio == pytest.approx(form.bits / 32 + 2 / GROUP, abs=0.01)
        assert ratio < most


def attention_bytes(stored: Any) -> int:
    return sum(cache.nbytes for cache in stored.caches if isinstance(cache, KVCache | QuantizedRow))


def test_the_first_layers_numbers_are_those_of_an_exact_row(tmp_path: Path) -> None:
    # Those of the layers above it differ, since what they are made of does.
    directory = make(tmp_path / "plain", KINDS["plain"])
    prompt = prompts(1, seed=7)[0] * 3
    (whole,) = prefill(engine_of(directory), 1, prompt, len(prompt))
    (less,) = prefill(engine_of(directory, kv=FORMS["8 bits"]), 1, prompt, len(prompt))
    assert isinstance(whole, kv.KVSnapshot) and isinstance(less, kv.KVSnapshot)
    for exactly, packed in zip(quantized(whole.caches[0], FORMS["8 bits"]).keys, less.caches[0].keys, strict=True):
        assert mx.array_equal(exactly, packed)


@pytest.mark.parametrize("how", ["kv", "stored"])
def test_a_prompt_goes_on_from_a_packed_snapshot_also_through_a_file(
    checkpoint: Path, tmp_path: Path, how: str
) -> None:
    engine = engine_of(checkpoint, **{how: FORMS["8 bits"]})
    prompt = prompts(1, seed=7)[0] * 3
    half = len(prompt) // 2
    (stored,) = prefill(engine, 1, prompt[:half], half)
    assert isinstance(stored, kv.KVSnapshot)
    assert packs(stored)
    frozen = engine.freezer().freeze(stored)
    assert frozen is not None
    entry = disk_entry.write(tmp_path / "key", "", tuple(prompt[:half]), stored.shortest, frozen)
    thawed = engine.freezer().thaw(entry.arrays, disk_entry.read(entry.folder).layout, half)
    warm = [
        Job(id, prompt, Sampling(temperature=0), snapshot=snapshot, computed=half)
        for id, snapshot in ((2, stored), (3, thawed), (4, stored))
    ]
    for job in warm:
        run(engine, [job])
    assert warm[0].text == warm[1].text == warm[2].text
    if how == "kv":
        cold = Job(5, prompt, Sampling(temperature=0))
        run(engine, [cold])
        assert cold.text == warm[0].text


def test_stored_prefixes_alone_leave_running_rows_exact(checkpoint: Path) -> None:
    plain, engine = engine_of(checkpoint), engine_of(checkpoint, stored=FORMS["4 bits"])
    expected, got = (Job(1, prompts(1, seed=3)[0], Sampling(temperature=0)) for _ in range(2))
    run(plain, [expected])
    run(engine, [got])
    assert got.text == expected.text


def test_another_form_is_another_key_on_disk_and_another_store(checkpoint: Path) -> None:
    engine = engine_of(checkpoint)
    keys = [engine.freezer().key(DISK)]
    for settings in ({"kv": FORMS["8 bits"]}, {"stored": FORMS["8 bits"]}, {"kv": FORMS["4 bits"]}, {}):
        changed = {**{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__}, **settings}
        engine.configure(EngineSettings(**changed))
        keys.append(engine.freezer().key(DISK))
    assert keys[0] == keys[-1]
    assert len(set(keys)) == 4


def test_a_snapshot_of_another_form_is_taken_into_the_present_one(checkpoint: Path) -> None:
    (stored,) = prefill(engine_of(checkpoint, kv=FORMS["4 bits"]), 1, [9] * 12, 12)
    engine = engine_of(checkpoint, kv=FORMS["8 bits"])
    engine.open(Opening(2, [9] * 13, 12, stored, Sampling(temperature=0), 13))
    back = engine.snapshot(2, 12)
    assert isinstance(back, kv.KVSnapshot)
    assert {cache.bits for cache in back.caches if isinstance(cache, QuantizedRow)} == {8}


# ---- the batch against mlx-lm's own, operation by operation
FORM = KvForm(bits=8, group=GROUP)


def draw(random_: random.Random, rows: int, tokens: int) -> mx.array:
    return mx.random.normal((rows, HEADS, tokens, WIDTH), key=mx.random.key(random_.randrange(1 << 30)))


def row_pair(random_: random.Random, tokens: int) -> tuple[KVCache, QuantizedRow]:
    whole = KVCache()
    if tokens:
        whole.update_and_fetch(draw(random_, 1, tokens), draw(random_, 1, tokens))
    return whole, quantized(whole, FORM)


def same(whole: BatchKVCache, packed: QuantizedRectangle) -> None:
    rows = whole.offset.shape[0]
    assert whole.offset.tolist() == packed.offset.tolist()
    assert whole.left_padding.tolist() == packed.left_padding.tolist()
    assert whole.size() == packed.size()
    for place in range(rows if whole.keys is not None else 0):
        theirs, ours = quantized(whole.extract(place), FORM), packed.extract(place)
        assert theirs.offset == ours.offset
        for a, b in zip((*theirs.keys, *theirs.values), (*ours.keys, *ours.values), strict=True):
            assert mx.array_equal(a, b)


def test_a_walk_does_to_packed_rows_what_it_does_to_exact_ones() -> None:
    for seed in range(12):
        random_ = random.Random(seed)
        pairs = [row_pair(random_, random_.choice((0, 3, 7))) for _ in range(3)]
        whole, packed = KVCache.merge([p[0] for p in pairs]), QuantizedRow.merge([p[1] for p in pairs])
        for _ in range(8):
            same(whole, packed)
            rows = whole.offset.shape[0]
            match random_.choice(("grow", "grow", "ragged", "filter", "extend", "trim")):
                case "grow":
                    keys, values = draw(random_, rows, 1), draw(random_, rows, 1)
                    for cache in (whole, packed):
                        cache.update_and_fetch(keys, values)
                case "ragged":
                    width = random_.randint(2, 5)
                    padding = [random_.randrange(width) for _ in range(rows)]
                    keys, values = draw(random_, rows, width), draw(random_, rows, width)
                    for cache in (whole, packed):
                        cache.prepare(lengths=[width - pad for pad in padding], right_padding=padding)
                        cache.update_and_fetch(keys, values)
                        cache.finalize()
                case "filter" if rows > 1:
                    keep = mx.array(sorted(random_.sample(range(rows), rows - 1)))
                    for cache in (whole, packed):
                        cache.filter(keep)
                case "extend":
                    pairs = [row_pair(random_, random_.choice((0, 2, 9))) for _ in range(2)]
                    whole.extend(KVCache.merge([p[0] for p in pairs]))
                    packed.extend(QuantizedRow.merge([p[1] for p in pairs]))
                case "trim" if whole.keys is not None and min(whole.offset.tolist()) > 1:
                    assert whole.trim(1) == packed.trim(1)
        same(whole, packed)


def test_what_is_unpacked_is_near_to_what_was_packed() -> None:
    whole, packed = row_pair(random.Random(1), 40)
    assert mx.abs(exact(packed).keys - whole.keys[..., :40, :]).max() < 0.04
    assert exact(QuantizedRow(GROUP, 8)).empty()


def test_a_copy_shares_no_memory_with_its_row() -> None:
    _, packed = row_pair(random.Random(1), 9)
    kept = packed.copy(2)
    before = [mx.array(part) for part in kept.keys]
    packed.update_and_fetch(*(draw(random.Random(2), 1, 3) for _ in range(2)))
    assert (kept.offset, packed.offset) == (7, 12)
    assert all(mx.array_equal(a, b) for a, b in zip(before, kept.keys, strict=True))


# ---- windows, and what cannot be
@pytest.mark.parametrize("stagger", [0, 1], ids=["all at once", "joining mid-decode"])
def test_rows_that_look_back_at_a_window_give_the_tokens_they_give_alone(checkpoint: Path, stagger: int) -> None:
    engine = windowed(checkpoint, 16)
    together = jobs(stagger)
    run(engine, together)
    for job in together:
        alone = replace(job, at=0, got=[])
        run(engine, [alone])
        assert job.text == alone.text, job.sampling


def windowed(directory: Path, tokens: int | None, **settings: Any) -> MlxBackend:
    built = MlxBackend()
    changed = {**{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__}, **settings}
    spec = EngineSpec(backend="mlx", path=str(directory), max_kv=tokens)
    built.load(spec, EngineSettings(**changed), lambda phase, fraction: None)
    return built


def test_a_window_bounds_what_a_row_takes(checkpoint: Path) -> None:
    for tokens, bounded in ((16, True), (512, False)):
        engine = windowed(checkpoint, tokens)
        prefill(engine, 1, [7] * 300, 300)
        for _ in range(4):
            step = engine.launch(Batch((1,), ()))
            step.begin()
            step.wait()
        whole = engine_of(checkpoint)
        prefill(whole, 1, [7] * 300, 300)
        assert (engine.held_bytes() < whole.held_bytes() / 4) == bounded


SLIDING = FAMILIES["gemma3, sliding window"] | {"head_dim": 32}


@pytest.mark.parametrize(
    ("kind", "how", "words"),
    [
        pytest.param(SLIDING, {"kv": KvForm(bits=8, group=32)}, "kv: .*RotatingKVCache cannot", id="sliding"),
        pytest.param(SLIDING, {"stored": KvForm(bits=8, group=32)}, "the cache policy's bits: ", id="kept ones"),
        pytest.param(
            FAMILIES["mamba, state only"], {"kv": KvForm(bits=8)}, "ArraysCache cannot", id="a packed state"
        ),
        pytest.param(
            FAMILIES["llama, plain cache"], {"kv": KvForm(bits=8)}, "kv: ", id="a group that does not divide"
        ),
        pytest.param(
            MORE["gemma2, one row at a time"] | {"head_dim": 32},
            {"kv": KvForm(bits=8, group=32)},
            "kv: this model's own attention does not take",
            id="attention of its own",
        ),
        pytest.param(SLIDING, {"max_kv": 64}, "max_kv: .*window", id="a window over windows"),
        pytest.param(
            MORE["afm7, places for positions"], {"max_kv": 64}, "max_kv: its own code", id="a code of its own"
        ),
        pytest.param(FAMILIES["mamba, state only"], {"max_kv": 64}, "max_kv: Arrays", id="a state in a window"),
        pytest.param(
            KINDS["plain"], {"max_kv": 64, "kv": KvForm(bits=8, group=32)}, "kv: ", id="a window in few bits"
        ),
    ],
)
def test_what_a_models_caches_cannot_be_fails_its_load_for_good(
    tmp_path: Path, kind: dict[str, Any], how: dict[str, Any], words: str
) -> None:
    directory = make(tmp_path / "m", kind)
    settings = dict(how)
    window = settings.pop("max_kv", None)
    with pytest.raises(LoadFailed, match=words) as raised:
        windowed(directory, window, **settings)
    assert raised.value.permanent
