"""Whatever else an engine does meanwhile, an answer is what it would be alone, token for token.

A walk asks for everything at once, at random: shared, cut and repeated prompts, next turns, every sampling
parameter, rules, grammars, adapters, forecasts, priorities, clients that leave. It does so on grounds on which
something is scarce or held otherwise: memory for rows, places, prefixes in memory and on disk, keys and values in
fewer bits or over a window, with guesses of every kind.
"""

from pathlib import Path

import pytest

from appliance.errors import LoadFailed
from appliance.vocab.spec import KvForm, Speculative
from tests.mlx.families import FAMILIES, MORE, make
from tests.mlx.walking import Engine, Ground, Walk, adapters_of, walk

PLAIN = FAMILIES["llama, plain cache"] | {"head_dim": 32}
LOOKUP = Speculative(kind="lookup", depth=6, max_batch=4)
EVERYTHING = Ground(room=300, rows=8, disk=True, speculative=LOOKUP, stall=1e-3, prefix_bytes=400_000)
DRAFT = "a small model"
"""Stands for its directory."""


def bits(bits: int, from_token: int = 0) -> KvForm:
    return KvForm(bits=bits, group=32, from_token=from_token)


GROUNDS = {
    "room for all": Ground(),
    "scarce memory": Ground(room=260, rows=8, stall=1e-4),
    "few places": Ground(rows=3, stall=1e-4),
    "no prefixes": Ground(prefix_bytes=0),
    "few prefixes, a disk": Ground(prefix_bytes=60_000, rows=5, disk=True),
    "prefixes in fewer bits": Ground(stored=bits(8), room=260, rows=8),
    "8 bits": Ground(form=bits(8), room=260, rows=8),
    "4 bits": Ground(form=bits(4)),
    "8 bits from a token on, a disk": Ground(form=bits(8, 100), disk=True, speculative=LOOKUP, rows=4),
    "4 bits from a token on, scarce": Ground(form=bits(4, 30), room=260, rows=8, stall=1e-4),
    "a window": Ground(max_kv=24, rows=5),
    "suffixes": Ground(speculative=Speculative(kind="suffix", depth=5, max_batch=4), room=260, rows=8),
    "a draft model": Ground(speculative=Speculative(kind="draft", draft=DRAFT, depth=4, max_batch=8)),
    "a draft model, 8 bits from a token on": Ground(
        speculative=Speculative(kind="draft", draft=DRAFT, depth=4, max_batch=8), form=bits(8, 30)
    ),
}
KINDS = FAMILIES | MORE


def wander(homes: Path, kind: dict[str, object], ground: Ground, seeds: range, count: int) -> None:
    directory = make(homes / "walked", kind)
    if (spec := ground.speculative) is not None and spec.draft == DRAFT:
        ground = ground.drafting(make(homes / "small", PLAIN))
    engine = Engine(directory, ground)
    adapters = adapters_of(engine.backend, homes / "adapters")
    ties = 0
    for seed in seeds:
        disk = homes / f"disk {seed}" if ground.disk else None
        verdict = walk(engine, Walk(seed, directory, ground, adapters, count), disk)
        assert verdict.answers == count
        ties += verdict.ties
    assert ties <= 1 + count * len(seeds) // 25, "answers hang by noise too often to say anything"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cache_answers_as_alone(tmp_path: Path, kind: str) -> None:
    wander(tmp_path, KINDS[kind], EVERYTHING, range(1), count=4)


@pytest.mark.parametrize("ground", GROUNDS)
def test_plain_attention_answers_as_alone_on_every_ground(tmp_path: Path, ground: str) -> None:
    wander(tmp_path, PLAIN, GROUNDS[ground], range(1, 2), count=5)


@pytest.mark.proof
@pytest.mark.parametrize("ground", [*GROUNDS, "everything"])
@pytest.mark.parametrize("kind", KINDS)
def test_long_walks_over_every_kind_on_every_ground(tmp_path: Path, kind: str, ground: str) -> None:
    try:
        wander(tmp_path, KINDS[kind] | {"head_dim": 32}, GROUNDS.get(ground, EVERYTHING), range(6), count=10)
    except LoadFailed as failed:  # a form that these caches cannot have
        pytest.skip(failed.message)
