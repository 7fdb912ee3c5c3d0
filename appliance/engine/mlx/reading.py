"""A checkpoint's tokenizer and the facts its config tells, without its weights."""

import json
import time
from pathlib import Path
from typing import Any

from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.errors import LoadFailed
from appliance.vocab.spec import EngineSpec, ModelInfo

UNBOUNDED_CONTEXT = 1 << 20
"""Tokens, of a checkpoint that names no limit."""


def bare(spec: EngineSpec) -> tuple[ModelInfo, PromptTokenizer]:
    """All that counting and rendering need. Raises LoadFailed, permanent."""
    began = time.perf_counter()
    directory = Path(spec.path)
    tokenizer = PromptTokenizer(directory, spec.trust_remote_code)
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{directory.name}: its config.json cannot be read: {error}", permanent=True) from error
    info = ModelInfo(
        context=context_of(config),
        vocab_size=max(int(_text(config).get("vocab_size") or 0), tokenizer.size),
        weight_bytes=0,
        kv_bytes_per_token=0,
        dtype="none",
        load_seconds=time.perf_counter() - began,
    )
    return info, tokenizer


def context_of(config: dict[str, Any]) -> int:
    """The longest context a checkpoint's config allows, in tokens."""
    return int(_text(config).get("max_position_embeddings") or UNBOUNDED_CONTEXT)


def _text(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that is about text."""
    return dict(config.get("text_config", config))
