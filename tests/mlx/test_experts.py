"""What a pass reads of a mixture of experts."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.switch_layers import SwitchLinear

from appliance.engine.mlx.experts import experts
from appliance.vocab.spec import ModelInfo
from tests.mlx.driving import backend, begin, say
from tests.mlx.families import COMMON, FAMILIES, make
from tests.mlx.speculating import Device

MOE = FAMILIES["qwen3-moe, experts"]
LAYERS, EXPERTS, CHOSEN = 2, 4, 2
EXPERT_BYTES = LAYERS * EXPERTS * 3 * 64 * 32 * 4
"""Three matrices of 64 by 32 numbers in float32 for each."""


@pytest.mark.parametrize(
    ("family", "expert_bytes", "share"),
    [("qwen3-moe, experts", EXPERT_BYTES, CHOSEN / EXPERTS), ("llama, plain cache", 0, 1.0)],
)
def test_a_model_tells_what_each_pass_reads_and_what_its_tokens_choose(
    tmp_path: Path, family: str, expert_bytes: int, share: float
) -> None:
    info: ModelInfo = Device(make(tmp_path, FAMILIES[family])).info
    assert (info.expert_bytes, info.expert_share) == (expert_bytes, share)
    assert info.pass_bytes == info.weight_bytes - expert_bytes > 0


class Layer(SwitchLinear):  # type: ignore[misc]
    """A model that is one of these."""


@pytest.mark.parametrize(
    ("config", "share"),
    [
        ({"num_experts_per_tok": 2}, 0.25),
        ({"num_experts_per_token": 1}, 0.125),
        ({"moe_topk": 4}, 0.5),
        ({"moe_top_k": 4}, 0.5),
        ({"moe_k": 6}, 0.75),
        ({"top_k_experts": 8}, 1.0),
        ({"text_config": {"num_experts_per_tok": 2}}, 0.25),
        ({"num_experts_per_tok": 99}, 1.0),
        ({"num_experts_per_tok": None}, 1.0),
        ({}, 1.0),
    ],
    ids=str,
)
def test_the_number_of_chosen_experts_has_many_names(config: dict[str, Any], share: float) -> None:
    layer = Layer(32, 8, num_experts=8, bias=False)
    assert experts(layer, config) == (8 * 32 * 8 * 4, share)
    layer = layer.to_quantized(group_size=32, bits=4)
    total, told = experts(layer, config)
    assert told == share
    assert total < 8 * 32 * 8 * 4


def test_a_token_reads_its_share_and_more_tokens_read_as_much_as_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = backend(make(tmp_path, MOE))
    random = np.random.default_rng(0)
    rows = 8
    for id in range(rows):
        begin(engine, id, [int(token) for token in random.integers(3, int(COMMON["vocab_size"]), 6)])  # type: ignore[call-overload]
    chosen: list[mx.array] = []
    call = SwitchLinear.__call__

    def listening(self: SwitchLinear, x: mx.array, indices: mx.array, **more: Any) -> mx.array:
        chosen.append(indices)
        return call(self, x, indices, **more)

    monkeypatch.setattr(SwitchLinear, "__call__", listening)
    say(engine, [0], 8)
    assert {len(np.unique(np.array(indices))) for indices in chosen} == {CHOSEN}
    chosen.clear()
    say(engine, list(range(rows)), 8)
    assert {len(np.unique(np.array(indices))) for indices in chosen} <= {CHOSEN, CHOSEN + 1, EXPERTS}
    assert len(np.unique(np.concatenate([np.array(indices).ravel() for indices in chosen]))) == EXPERTS
