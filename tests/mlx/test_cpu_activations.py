"""The activations of the CPU backend are those of mlx.nn, as closely as float32 tells."""

import mlx.core as mx
import mlx.nn.layers.activations as original
import numpy as np
import pytest

from appliance.engine.mlx import cpu_activations

SILU, GELU = original.silu, original.gelu_approx
PAIRS = [
    pytest.param(cpu_activations.silu, lambda x: x / (1 + np.exp(-x)), id="silu"),
    pytest.param(
        cpu_activations.gelu_approx,
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        id="gelu_approx",
    ),
]


@pytest.mark.parametrize(("ours", "exact"), PAIRS)
def test_an_activation_is_right_everywhere(ours, exact):
    x = np.linspace(-200, 200, 400_001).astype(np.float32)
    wanted = exact(x.astype(np.float64))
    off = np.abs(np.array(ours(mx.array(x))).astype(np.float64) - wanted)
    assert np.all(off <= 2e-6 + 2e-7 * np.abs(wanted))


@pytest.mark.parametrize(("ours", "exact"), PAIRS)
def test_a_small_value_keeps_its_leading_digits(ours, exact):
    x = np.concatenate([np.linspace(-3, -1e-6, 10_001), np.logspace(-30, 0, 301)]).astype(np.float32)
    wanted = exact(x.astype(np.float64))
    assert np.all(np.abs(np.array(ours(mx.array(x))) - wanted) <= 6e-6 * np.abs(wanted))


@pytest.mark.parametrize(("ours", "exact"), PAIRS)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
def test_the_type_stays(ours, exact, dtype):
    assert ours(mx.ones((2, 3), dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(("ours", "exact"), PAIRS)
def test_what_is_not_a_number_stays_so_and_touches_no_neighbour(ours, exact):
    x = np.array([1.0, np.nan, 2.0], dtype=np.float32)
    y = np.array(ours(mx.array(x)))
    assert np.isnan(y[1])
    assert y[[0, 2]] == pytest.approx(exact(x[[0, 2]].astype(np.float64)), rel=1e-5)


def test_models_use_them_once_installed(monkeypatch):
    import mlx.nn as nn

    for module in (nn, original):
        monkeypatch.setattr(module, "silu", SILU)
        monkeypatch.setattr(module, "gelu_approx", GELU)
    cpu_activations.install()
    assert nn.silu is original.silu is cpu_activations.silu
    assert nn.gelu_approx is original.gelu_approx is cpu_activations.gelu_approx
