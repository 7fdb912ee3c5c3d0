"""What decides an engine's weights in memory: an explicit list, hashed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from appliance.config.deployment import EMPTY, Source
from appliance.vocab.spec import DType

FileFact = tuple[str, int, int]
"""A file's name, its size in bytes and its modification time in nanoseconds."""

_WEIGHT_SUFFIXES = (".safetensors", ".json", ".model", ".txt", ".jinja", ".gguf", ".py")


def fingerprint(
    source: Source,
    dtype: DType,
    trust_remote_code: bool,
    files: tuple[FileFact, ...],
    loading: Mapping[str, Any] = EMPTY,
) -> str:
    """Equal for two models exactly if one engine can serve both. Names and request-time values are not in it.

    `loading` is what else decides the weights, where it was given: kind, quantize, speculative.
    """
    decides = {
        "kind": source.kind,
        "ref": source.ref,
        "revision": source.revision,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
        **loading,
        "files": sorted(f for f in files if source.kind != "path" or f[0].endswith(_WEIGHT_SUFFIXES)),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
