"""What a GGUF file says about itself: metadata and the list of tensors, read and checked before any weight is.

A truncated file is found here, before the rest of it is mapped: touching a missing page would kill the process.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.engine.mlx.gguf_blocks import FORMATS, Format
from appliance.errors import SourceError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 4
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_OTHERS = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS",
    18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` is outermost dimension first, as arrays have it; its bytes stand at `offset` in the file."""

    name: str
    shape: tuple[int, ...]
    format: Format
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata by key as plain values, and the tensors by name."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read_header(path: Path) -> Header:
    """Raises SourceError where the file is no GGUF, is cut short, or holds a tensor type we cannot read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path.name).header()
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise SourceError(f"{path.name} is empty or cut short; fetch it again") from error
    except OSError as error:
        raise SourceError(f"cannot read {path.name}: {error.strerror}") from error


class _Reader:
    def __init__(self, data: mmap.mmap, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0

    def header(self) -> Header:
        if self._data[:4] != _MAGIC:
            raise SourceError(f"{self._name} is not a GGUF file: it does not begin with GGUF")
        self._at = 4
        version = self._scalar("I")
        if version not in _VERSIONS:
            raise SourceError(f"{self._name} is GGUF version {version}; versions 2 and 3 are understood")
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        metadata = {self._string(): self._value(self._scalar("I")) for _ in range(pairs)}
        listed = [self._tensor() for _ in range(tensors)]
        alignment = int(metadata.get("general.alignment", 32))
        begin = -(-self._at // alignment) * alignment
        return Header(metadata, {tensor.name: self._placed(tensor, begin) for tensor in listed})

    def _tensor(self) -> Tensor:
        name, dimensions = self._string(), self._scalar("I")
        if dimensions > _MOST_DIMENSIONS:
            raise SourceError(f"{self._name}: tensor {name} has {dimensions} dimensions; the file is damaged")
        shape = tuple(reversed([self._scalar("Q") for _ in range(dimensions)]))
        kind, offset = self._scalar("I"), self._scalar("Q")
        if kind not in FORMATS:
            raise SourceError(
                f"{self._name}: tensor {name} is of type {_OTHERS.get(kind, kind)}, which cannot be converted; "
                f"take a Q8_0, Q4_0 or F16 file of the same model"
            )
        form = FORMATS[kind]
        if not shape or 0 in shape or shape[-1] % form.weights:
            raise SourceError(
                f"{self._name}: tensor {name} of shape {shape} cannot be {form.name}; the file is damaged"
            )
        return Tensor(name, shape, form, offset, math.prod(shape) // form.weights * form.size)

    def _placed(self, tensor: Tensor, begin: int) -> Tensor:
        placed = replace(tensor, offset=begin + tensor.offset)
        if placed.offset + placed.size > len(self._data):
            raise SourceError(f"{self._name} is cut short: {tensor.name} is not all there; fetch it again")
        return placed

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, length = self._scalar("I"), self._scalar("Q")
            if inner in _SCALARS:
                return self._scalars(_SCALARS[inner], length)
            return [self._value(inner) for _ in range(length)]
        if kind not in _SCALARS:
            raise SourceError(f"{self._name}: a metadata value is of unknown type {kind}; the file is damaged")
        return self._scalar(_SCALARS[kind])

    def _string(self) -> str:
        length = self._scalar("Q")
        if length > len(self._data) - self._at:
            raise ValueError("a string runs past the end of the file")
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8")

    def _scalar(self, code: str) -> Any:
        return self._scalars(code, 1)[0]

    def _scalars(self, code: str, length: int) -> list[Any]:
        size = struct.calcsize("<" + code) * length
        if size > len(self._data) - self._at:
            raise ValueError("an array runs past the end of the file")
        self._at += size
        return list(struct.unpack_from(f"<{length}{code}", self._data, self._at - size))
