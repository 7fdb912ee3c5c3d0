"""How a model is loaded and run beyond its source: KV cache, quantization, speculation, retries. Frozen types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.vocab.spec import KvForm, Speculative


@dataclass(frozen=True, slots=True)
class Quantized:
    """`group` numbers share a scale."""

    bits: int
    group: int = 64


@dataclass(frozen=True, slots=True)
class RetryLoad:
    """Seconds before the first retry and at most, and after how many failures it is given up."""

    first: float = 5.0
    max: float = 300.0
    tries: int = 5


def kv(value: Mapping[str, Any] | None) -> KvForm | None:
    return KvForm(**value) if value and "bits" in value else None


def most_exact(forms: Iterable[KvForm | None]) -> KvForm | None:
    """The one form of models that share an engine: that of the model which is given up least."""
    wished = list(forms)
    if None in wished:
        return None
    return max((form for form in wished if form is not None), key=lambda form: (form.bits, form.from_token))


def quantized(value: Mapping[str, Any] | None) -> Quantized | None:
    return Quantized(**value) if value and "bits" in value else None


def speculative(value: Mapping[str, Any] | None, draft: str) -> Speculative | None:
    return Speculative(**{**value, "draft": draft}) if value and "kind" in value else None
