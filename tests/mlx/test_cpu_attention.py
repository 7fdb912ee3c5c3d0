"""Attention on the CPU backend is the mean it is defined by, in blocks and out of them, and MLX's own elsewhere."""

import mlx.core as mx
import numpy as np
import pytest

from appliance.engine.mlx.cpu_attention import FEWEST, MOST, Attention

WIDTH, SCALE = 16, 0.25
ORIGINAL = Attention(lambda *_, **__: pytest.fail("MLX's own was asked"))
SHAPES = [
    pytest.param((16, 9, 3, 1, 100), id="16 rows of one token"),
    pytest.param((4, 9, 3, 69, 69), id="4 prompts"),
    pytest.param((1, 4, 4, 64, 200), id="a chunk behind a prefix, heads not grouped"),
    pytest.param((1, 9, 1, 150, 600), id="one group of heads, several blocks"),
    pytest.param((2, 6, 3, 300, 300), id="several blocks of two rows"),
]
MASKS = ["none", "causal", "window", "padded", "blind"]


def _arrays(shape, spread=3.0):
    batch, heads, groups, length, keys = shape
    draw = np.random.default_rng(7).normal
    sizes = ((batch, heads, length, WIDTH), (batch, groups, keys, WIDTH), (batch, groups, keys, WIDTH))
    return [draw(scale=spread, size=size).astype(np.float32) for size in sizes]


def _seen(mask, shape):
    """(B or 1, 1, L, S) bool."""
    batch, _, _, length, keys = shape
    at, key = np.arange(keys - length, keys)[:, None], np.arange(keys)[None]
    seen = np.broadcast_to((key <= at)[None, None], (batch, 1, length, keys)).copy()
    match mask:
        case "none":
            seen[:] = True
        case "window":
            return seen[:1] & (key > at - 20)
        case "padded":
            for row in range(batch):
                seen[row, :, :, : row * 2] = False
        case "blind":
            seen[0, :, 0] = False
    return seen


def _exact(q, k, v, seen):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    scores = np.where(seen, SCALE * q @ k.swapaxes(-1, -2), -1e300)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_a_weighted_mean_of_values(shape, mask):
    q, k, v = _arrays(shape)
    seen = _seen(mask, shape)
    given = {"none": None, "causal": "causal", "window": mx.array(seen[0, 0])}.get(mask, mx.array(seen))
    ours = ORIGINAL(*map(mx.array, (q, k, v)), scale=SCALE, mask=given)
    assert np.abs(np.array(ours) - _exact(q, k, v, seen)).max() < 3e-5


def test_scores_far_apart_neither_overflow_nor_vanish():
    shape = (16, 9, 3, 4, 100)
    q, k, v = _arrays(shape, spread=100.0)
    ours = np.array(ORIGINAL(*map(mx.array, (q, k, v)), scale=SCALE))
    assert np.abs(ours - _exact(q, k, v, _seen("none", shape))).max() < 0.05  # of values about 100


def test_hidden_keys_count_exactly_nothing():
    shape = (16, 9, 3, 1, 100)
    q, k, v = _arrays(shape)
    seen = _seen("padded", shape)
    first = np.array(ORIGINAL(*map(mx.array, (q, k, v)), scale=SCALE, mask=mx.array(seen)))
    hidden = np.broadcast_to(~seen[:, :, 0, :, None], v.shape)
    k[hidden], v[hidden] = 50.0, 1e20
    assert np.array_equal(first, np.array(ORIGINAL(*map(mx.array, (q, k, v)), scale=SCALE, mask=mx.array(seen))))


def test_a_mask_that_follows_another_is_not_taken_for_it():
    shape = (16, 9, 3, 1, 100)
    q, k, v = _arrays(shape)
    attention = Attention(ORIGINAL)
    for mask in ("padded", "none", "blind"):
        seen = _seen(mask, shape)
        ours = np.array(attention(*map(mx.array, (q, k, v)), scale=SCALE, mask=mx.array(seen)))
        assert np.abs(ours - _exact(q, k, v, seen)).max() < 3e-5


@pytest.mark.parametrize(
    ("change", "options"),
    [
        pytest.param(lambda a: a.astype(mx.float16), {}, id="half precision"),
        pytest.param(lambda a: a, {"sinks": mx.zeros((9,))}, id="sinks"),
        pytest.param(lambda a: a, {"mask": mx.zeros((16, 1, 1, 100))}, id="a mask of summands"),
        pytest.param(lambda a: a, {"mask": mx.ones((16, 9, 1, 100), dtype=mx.bool_)}, id="a mask a head"),
        pytest.param(lambda a: a[:1], {}, id="few scores"),
    ],
)
def test_what_it_does_not_know_is_left_to_mlx(change, options):
    arrays = [change(mx.array(a)) for a in _arrays((16, 9, 3, 1, 100))]
    asked = []
    mine = Attention(lambda *args, **given: asked.append((args, given)) or "theirs")
    assert mine(*arrays, scale=SCALE, **options) == "theirs"
    assert asked == [(tuple(arrays), {"scale": SCALE, "mask": None, "sinks": None, **options})]


def test_the_shapes_above_are_what_they_are_named():
    scores = [shape.values[0][0] * shape.values[0][1] * shape.values[0][3] * shape.values[0][4] for shape in SHAPES]
    assert min(scores) > FEWEST
    assert [count > MOST for count in scores] == [False, False, False, True, True]
