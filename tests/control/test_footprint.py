"""What weights are expected to take, from the headers of files of every type."""

import json
from math import prod

import pytest

from appliance.control.footprint import measure

PLAIN = {"a.weight": ("BF16", [10, 10]), "b.weight": ("F32", [10])}
QUANTIZED = {
    "a.weight": ("U32", [64, 8]),  # 64 × 64 values of 4 bits
    "a.scales": ("BF16", [64, 2]),
    "a.biases": ("BF16", [64, 2]),
    "norm.weight": ("BF16", [64]),
}
AS_STORED = 64 * 8 * 4 + 2 * (64 * 2 * 2) + 64 * 2


def write(directory, tensors, config):
    width = {"BF16": 2, "F32": 4, "U32": 4}
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, (kind, shape) in tensors.items():
        size = width[kind] * prod(shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(offset))
    (directory / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "tensors, dtype, cpu, expected",
    [
        pytest.param(PLAIN, "auto", True, 110 * 4, id="auto on the CPU is float32"),
        pytest.param(PLAIN, "auto", False, 100 * 2 + 10 * 4, id="auto elsewhere is as stored"),
        pytest.param(PLAIN, "float16", False, 110 * 2, id="a type that was asked for"),
        pytest.param(QUANTIZED, "auto", True, (64 * 64 + 64) * 4, id="quantized on the CPU is dequantized"),
        pytest.param(QUANTIZED, "bfloat16", True, (64 * 64 + 64) * 2, id="to the type that was asked for"),
        pytest.param(QUANTIZED, "auto", False, AS_STORED, id="quantized elsewhere stays"),
        pytest.param(QUANTIZED, "float32", False, AS_STORED + 64 * 2, id="where only the rest is converted"),
    ],
)
def test_bytes_once_loaded(tmp_path, tensors, dtype, cpu, expected):
    write(tmp_path, tensors, {"quantization": {"group_size": 32, "bits": 4}})
    assert measure(tmp_path, dtype, cpu=cpu) == expected


@pytest.mark.parametrize("content", [b"", b"\x05\x00\x00\x00\x00\x00\x00\x00{nope", b"\xff" * 8], ids=str)
def test_a_file_that_is_no_safetensors_counts_nothing(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    assert measure(tmp_path, "auto", cpu=True) == 0
