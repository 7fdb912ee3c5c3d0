"""What is asked in a load: plain greedy chats, chats each sampled in its own way, answers under a JSON schema."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.bench.answer import Load
from tests.bench.prompts import WORDS, chats

Extra = dict[str, Any]

LIST = {
    "type": "array",
    "items": {"type": "object", "properties": {"word": {"enum": WORDS[:40]}, "many": {"type": "integer"}},
              "required": ["word", "many"], "additionalProperties": False},
    "minItems": 60, "maxItems": 60,
}  # fmt: skip
"""Longer than any answer asked for, so that every answer has as many tokens as it may have."""


def sampled(random: Random) -> Extra:
    """No two alike, as the requests of different users are."""
    return {
        "temperature": round(random.uniform(0.3, 1.2), 2),
        "top_p": round(random.uniform(0.7, 0.99), 2),
        "seed": random.randrange(1 << 31),
        "presence_penalty": round(random.uniform(0, 1), 2),
        "frequency_penalty": round(random.uniform(0, 1), 2),
    }


def schema(_: Random) -> Extra:
    """Strict JSON of a list."""
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "list", "strict": True, "schema": LIST}}
    }


WORKLOADS: dict[str, Callable[[Random], Extra]] = {"plain": lambda _: {}, "sampled": sampled, "schema": schema}


def load(workload: str, seed: str, count: int, prompt_tokens: int, streams: int, max_tokens: int) -> Load:
    """`count` different requests of a workload."""
    random = Random(f"{workload}-{seed}")
    extras = tuple(WORKLOADS[workload](random) for _ in range(count))
    return Load(chats(count, prompt_tokens, seed), streams, max_tokens, extras)
