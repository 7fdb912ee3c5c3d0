"""Rotary positions on the CPU backend are those of mlx.core.fast, bit for bit where the angles are."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache

from appliance.engine.mlx import cpu_fast, kv
from appliance.engine.mlx.cpu_attention import Attention
from appliance.engine.mlx.cpu_rotation import KEPT, Rotation

THEIRS = cpu_fast._ROPE
FREQS = mx.array(np.linspace(1, 1000, 32, dtype=np.float32))
OPTIONS = {"traditional": False, "base": 10000.0, "scale": 1.0, "freqs": None}


def _x(batch, heads, length, width=64):
    drawn = np.random.default_rng(3).normal(size=(batch, length, heads, width)).astype(np.float32)
    return mx.array(drawn).transpose(0, 2, 1, 3)


@pytest.mark.parametrize(
    ("shape", "offset", "options"),
    [
        pytest.param((1, 9, 1), 0, {}, id="the first token"),
        pytest.param((1, 9, 1), 1999, {}, id="a late token"),
        pytest.param((1, 3, 69), 512, {}, id="a chunk"),
        pytest.param((4, 9, 20), mx.array([0, -3, 100, 7]), {}, id="a place a row"),
        pytest.param((4, 9, 20), 5, {}, id="one place for all rows"),
        pytest.param((2, 3, 20), 5, {"scale": 0.25}, id="scaled"),
        pytest.param((2, 3, 20), mx.array([5, 6]), {"base": None, "freqs": FREQS}, id="frequencies given"),
    ],
)
def test_it_turns_as_mlx_does(shape, offset, options):
    x, given = _x(*shape), OPTIONS | options
    ours = Rotation(lambda *_, **__: pytest.fail("MLX's own was asked"))(x, 64, offset=offset, **given)
    assert mx.abs(ours - THEIRS(x, 64, offset=offset, **given)).max().item() <= 1e-6


@pytest.mark.parametrize(
    ("x", "dims", "options"),
    [
        pytest.param(_x(1, 2, 3), 64, {"traditional": True}, id="pairs side by side"),
        pytest.param(_x(1, 2, 3), 32, {}, id="part of a head"),
        pytest.param(_x(1, 2, 3).astype(mx.float16), 64, {}, id="half precision"),
        pytest.param(_x(1, 2, 3)[0], 64, {}, id="three dimensions"),
        pytest.param(_x(2, 2, 3), 64, {"offset": mx.array(4)}, id="a place that is an array, for all rows"),
    ],
)
def test_what_it_does_not_know_is_left_to_mlx(x, dims, options):
    given = OPTIONS | {"offset": 2} | options
    asked = []
    mine = Rotation(lambda *args, **named: asked.append((args, named)) or "theirs")
    assert mine(x, dims, **given) == "theirs"
    assert asked == [((x, dims), given)]


def test_angles_are_kept_for_their_place_alone():
    mine, x = Rotation(THEIRS), _x(2, 3, 5)
    places = [7, mx.array([1, 2]), 8, mx.array([3, 4]), *range(KEPT), mx.array([1, 2]), 7]
    for offset in places:
        for _ in range(2):
            ours, theirs = (f(x, 64, offset=offset, **OPTIONS) for f in (mine, THEIRS))
            assert mx.abs(ours - theirs).max().item() <= 1e-6


def test_layers_that_share_places_move_on_alone():
    caches = [BatchKVCache([1, 0]) for _ in range(3)]
    keys = mx.zeros((2, 1, 4, 8))
    for cache in caches[:2]:
        cache.update_and_fetch(keys, keys)
    kv.share_places(caches)
    assert caches[0].offset is caches[1].offset
    assert caches[2].offset.tolist() == [-1, 0]
    caches[0].update_and_fetch(keys, keys)
    caches[1].prepare(right_padding=[0, 2])
    caches[1].finalize()
    assert [cache.offset.tolist() for cache in caches] == [[7, 8], [3, 2], [-1, 0]]


def test_models_use_them_once_installed(monkeypatch):
    for name in ("rope", "scaled_dot_product_attention"):
        monkeypatch.setattr(mx.fast, name, getattr(mx.fast, name))
    cpu_fast.install()
    cpu_fast.install()
    assert isinstance(mx.fast.rope, Rotation)
    assert isinstance(mx.fast.scaled_dot_product_attention, Attention)
    assert mx.fast.rope._original is THEIRS
