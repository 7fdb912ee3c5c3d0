"""The products of few rows on the CPU backend are those of mlx.nn, as closely as float32 tells."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from appliance.engine.mlx import cpu_products

ROWS = cpu_products.FEW_ROWS


@pytest.fixture
def installed(monkeypatch):
    for kind, method in ((nn.Linear, "__call__"), (nn.Embedding, "as_linear")):
        monkeypatch.setattr(kind, method, getattr(kind, method))
    monkeypatch.setattr(cpu_products, "FEW_CORES", 1 << 20)
    cpu_products.install()


def drawn(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (ROWS,), (2, 3), (ROWS, 1), (1, ROWS)], ids=str)
@pytest.mark.parametrize(("outputs", "inputs"), [(24576, 256), (6144, 128), (16000, 96)])
def test_parts_make_the_whole_product(shape, outputs, inputs):
    x, weight = drawn(*shape, inputs), drawn(outputs, inputs)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    got = cpu_products.in_parts(mx.array(x), mx.array(weight))
    assert got is not None
    assert got.shape == (*shape, outputs)
    assert np.allclose(np.array(got), exact, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "dtype"),
    [
        pytest.param(ROWS + 1, 8192, 256, mx.float32, id="many rows"),
        pytest.param(0, 8192, 256, mx.float32, id="no rows"),
        pytest.param(1, 1024, 256, mx.float32, id="a small weight"),
        pytest.param(ROWS, 49152, 64, mx.float32, id="several rows that are short"),
        pytest.param(1, 8193, 256, mx.float32, id="a weight that has no parts"),
        pytest.param(1, 8192, 257, mx.float32, id="many inputs"),
        pytest.param(1, 49152, 31, mx.float32, id="hardly any"),
        pytest.param(1, 8192, 256, mx.bfloat16, id="another type"),
    ],
)
def test_what_is_better_done_at_once_is_left_alone(rows, outputs, inputs, dtype):
    x, weight = mx.zeros((rows, inputs), dtype=dtype), mx.zeros((outputs, inputs), dtype=dtype)
    assert cpu_products.in_parts(x, weight) is None


@pytest.mark.parametrize("rows", [1, ROWS, ROWS + 1])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_computes_the_same_once_they_are_installed(installed, rows, bias):
    layer, x = nn.Linear(256, 8192, bias=bias), mx.array(drawn(rows, 1, 256))
    wanted = x @ layer.weight.T + (layer.bias if bias else 0)
    assert mx.allclose(layer(x), wanted, atol=1e-4)


@pytest.mark.parametrize("rows", [1, ROWS, ROWS + 1])
def test_a_tied_output_layer_computes_the_same_once_they_are_installed(installed, rows):
    layer, x = nn.Embedding(8192, 256), mx.array(drawn(rows, 1, 256))
    assert mx.allclose(layer.as_linear(x), x @ layer.weight.T, atol=1e-4)


@pytest.mark.parametrize(("cores", "ours"), [(cpu_products.FEW_CORES, True), (cpu_products.FEW_CORES + 1, False)])
def test_many_cores_keep_the_products_of_mlx(monkeypatch, cores, ours):
    monkeypatch.setattr(nn.Linear, "__call__", cpu_products._whole)
    monkeypatch.setattr(nn.Embedding, "as_linear", cpu_products._whole_tied)
    monkeypatch.setattr(cpu_products, "_cores", lambda: cores)
    cpu_products.install()
    assert (nn.Linear.__call__ is cpu_products._linear) is ours
