"""What a model thinks of a prompt's own tokens: each one's log-probability behind those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from appliance.engine.backend import Candidate, Chunk, Sampled
from appliance.engine.mlx.adapters import Forward
from appliance.engine.mlx.kv import Caches
from appliance.engine.mlx.likeliest import likeliest

SLICE_TOKENS = 256
"""So many rows of a vocabulary are in memory at once."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Of N tokens. chosen, ranks: (N,); likeliest: (N, K) ids, best first, and their log-probabilities (N, K)."""

    tokens: Sequence[int]
    chosen: mx.array
    ranks: mx.array
    likeliest: mx.array
    logprobs: mx.array

    def read(self) -> list[Sampled]:
        each = (self.chosen, self.ranks, self.likeliest, self.logprobs)
        return [
            Sampled(token, logprob, tuple(Candidate(*pair) for pair in zip(ids, values, strict=True)), rank=rank)
            for token, logprob, rank, ids, values in zip(self.tokens, *(of.tolist() for of in each), strict=True)
        ]


def scored(model: Forward, chunk: Chunk, known: Sequence[int], caches: Caches, wanted: int) -> list[Scores]:
    """Lengthen the caches by a chunk, and score the tokens behind each of its own; waits for the device."""
    parts: list[Scores] = []
    for start in range(0, len(chunk.tokens), SLICE_TOKENS):
        tokens = chunk.tokens[start : start + SLICE_TOKENS]
        after = known[chunk.start + start + 1 : chunk.start + start + 1 + len(tokens)]
        logits = model(mx.array([tokens], dtype=mx.int32), cache=caches)[0].astype(mx.float32)
        parts.append(_scores(logits, after, wanted))
        part = parts[-1]
        mx.eval(part.chosen, part.ranks, part.likeliest, part.logprobs, [cache.state for cache in caches])
    return parts


def _scores(logits: mx.array, tokens: Sequence[int], wanted: int) -> Scores:
    """logits: (N, V)."""
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    own = mx.take_along_axis(logprobs, mx.array(list(tokens))[:, None], axis=-1)
    chosen, ranks = own[:, 0], (logprobs > own).sum(axis=-1) + 1
    most = min(wanted, logits.shape[-1])
    if most == 0:
        none = mx.zeros((len(tokens), 0))
        return Scores(tokens, chosen, ranks, none, none)
    return Scores(tokens, chosen, ranks, *likeliest(logprobs, most))
