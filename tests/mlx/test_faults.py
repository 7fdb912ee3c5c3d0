"""What MLX raises at work fails one answer, and what was computed before it still counts."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from appliance.engine.backend import Batch, Chunk, Opening
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.kv import Caches
from appliance.errors import EngineFault
from appliance.vocab.request import Sampling
from tests.mlx.driving import begin, say

PROMPT = [5, 9, 12, 7]


def impossible() -> mx.array:
    """MLX raises when this is computed."""
    return mx.linalg.inv(mx.zeros((3, 3)), stream=mx.cpu)


def tokens(engine: MlxBackend, id: int, count: int) -> list[int]:
    (said,) = say(engine, [id], count)
    return said


def failing(engine: MlxBackend, monkeypatch: pytest.MonkeyPatch, how: Callable[[mx.array, Caches], mx.array]) -> None:
    """From now on the model's pass does this with its logits and its caches."""
    kept = engine._model.__class__.__call__
    monkeypatch.setattr(
        engine._model.__class__, "__call__", lambda model, tokens, cache: how(kept(model, tokens, cache), cache)
    )


def at_once(logits: mx.array, caches: Caches = ()) -> mx.array:  # type: ignore[assignment]
    mx.eval(impossible())
    return logits


def when_computed(logits: mx.array, caches: Caches) -> mx.array:
    for cache in caches:
        cache.keys = cache.keys + impossible().sum()
    return logits + impossible().sum()


def test_a_failure_while_a_step_is_launched_is_a_fault_and_the_step_before_it_lands(
    engine: MlxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(engine, 1, PROMPT)
    expected = tokens(engine, 1, 3)
    engine.close(1)
    begin(engine, 1, PROMPT)
    flying = engine.launch(Batch((1,), ()))
    flying.begin()
    with monkeypatch.context() as patch:
        failing(engine, patch, at_once)
        with pytest.raises(EngineFault, match="the device failed"):
            engine.launch(Batch((1,), ()))
    assert flying.wait().sampled[1].token == expected[0]
    engine.close(1)
    begin(engine, 2, PROMPT)
    assert tokens(engine, 2, 3) == expected


@pytest.mark.parametrize("chunks", [(), (Chunk(2, 0, PROMPT[:-1], True),)], ids=["alone", "with a prompt beside it"])
def test_a_step_that_failed_leaves_nothing_to_the_next(
    engine: MlxBackend, monkeypatch: pytest.MonkeyPatch, chunks: tuple[Chunk, ...]
) -> None:
    begin(engine, 1, PROMPT)
    expected = tokens(engine, 1, 3)
    engine.close(1)
    begin(engine, 1, PROMPT)
    if chunks:
        engine.open(Opening(2, PROMPT, 0, None, Sampling(temperature=0.0), len(PROMPT)))
    with monkeypatch.context() as patch:
        failing(engine, patch, when_computed)
        step = engine.launch(Batch((1,), chunks))
    step.begin()
    with pytest.raises(EngineFault, match="the device failed"):
        step.wait()
    engine.close(1)
    engine.close(2)
    begin(engine, 3, PROMPT)
    assert tokens(engine, 3, 3) == expected
    engine.close(3)


@pytest.mark.parametrize("copied", ["snapshot", "freeze"])
def test_a_copy_that_fails_leaves_its_sequence_as_it_was(
    engine: MlxBackend, monkeypatch: pytest.MonkeyPatch, copied: str
) -> None:
    begin(engine, 1, PROMPT)
    expected = tokens(engine, 1, 4)
    engine.close(1)
    begin(engine, 1, PROMPT)
    said = tokens(engine, 1, 2)
    kept = engine.snapshot(1, len(PROMPT))
    assert kept is not None
    if copied == "snapshot":
        monkeypatch.setattr(mx, "contiguous", at_once)
        with pytest.raises(EngineFault, match="the device failed"):
            engine.snapshot(1, len(PROMPT))
    else:
        kept.caches[0].keys = kept.caches[0].keys + impossible().sum()
        assert engine.freezer().freeze(kept) is None
    assert said + tokens(engine, 1, 2) == expected
    engine.close(1)
