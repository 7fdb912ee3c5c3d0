"""Rules hold whatever a request says, and tightening does not depend on an order."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config.deployment import Deployment, Overlay, Policy
from appliance.config.overlay import frozen
from appliance.config.policy import tighten
from appliance.config.sampling import decide, find
from appliance.errors import BadRequest, PolicyConflict
from appliance.vocab.request import GenerateRequest, SamplingPatch
from tests.config import golden

NUMBERS = {
    "temperature": st.floats(0, 2), "top_p": st.floats(0, 1), "min_p": st.floats(0, 1),
    "presence_penalty": st.floats(-2, 2), "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.1, 10), "top_k": st.integers(0, 1000), "max_tokens": st.integers(1, 100_000),
    "min_tokens": st.integers(0, 1000),
}  # fmt: skip
PARAMS = sorted(NUMBERS)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    clamp = {
        p: tuple(sorted(draw(st.tuples(NUMBERS[p], NUMBERS[p])))) for p in draw(st.sets(st.sampled_from(PARAMS)))
    }
    lock = {p: draw(NUMBERS[p]) for p in draw(st.sets(st.sampled_from(PARAMS), max_size=2))}
    forbid = draw(
        st.dictionaries(st.sampled_from([*PARAMS, "stop"]), st.sampled_from(["strip", "reject"]), max_size=2)
    )
    return Policy(*map(MappingProxyType, (lock, clamp, forbid)))  # type: ignore[arg-type]


patches = st.fixed_dictionaries({}, optional=NUMBERS).map(lambda values: SamplingPatch(**values))


@given(st.lists(policies(), max_size=4))
def test_tightening_does_not_depend_on_the_order(layers: list[Policy]) -> None:
    combined, conflicts = tighten(layers)
    for order in itertools.islice(itertools.permutations(layers), 24):
        again, others = tighten(order)
        assert bool(conflicts) == bool(others)
        if not conflicts:
            assert again == combined


@given(st.lists(policies(), min_size=1, max_size=4))
def test_tightening_never_loosens(layers: list[Policy]) -> None:
    combined, conflicts = tighten(layers)
    if conflicts:
        return
    for layer in layers:
        for param, (low, high) in layer.clamp.items():
            assert low <= combined.clamp[param][0] <= combined.clamp[param][1] <= high
        assert layer.lock.items() <= combined.lock.items()
        assert all(combined.forbid[param] in ("reject", how) for param, how in layer.forbid.items())


@given(st.lists(policies(), max_size=3))
def test_tightening_twice_is_tightening_once(layers: list[Policy]) -> None:
    combined, conflicts = tighten(layers)
    if not conflicts:
        assert tighten([combined]) == (combined, ())


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    with pytest.MonkeyPatch.context() as patch:
        here = tmp_path_factory.mktemp("decisions")
        golden.lay_out(here)
        patch.chdir(here)
        return golden.read("version: 1\nmodels: {m: {source: 'hf:test/qwen3'}}\n")


@given(policies(), policies(), patches, patches, patches)
def test_no_request_escapes_a_rule(
    deployment: Deployment,
    defaults: Policy,
    own: Policy,
    soft: SamplingPatch,
    low: SamplingPatch,
    asked: SamplingPatch,
) -> None:
    model = replace(find(deployment, "m").model, own=Overlay(sampling=soft, policy=own))
    ruled = replace(
        deployment, defaults=Overlay(sampling=low, policy=defaults), models=MappingProxyType({"m": model})
    )
    combined, conflicts = tighten([defaults, own])
    request = GenerateRequest(model="m", messages=(), sampling=asked)
    try:
        decided = decide(ruled, find(ruled, "m"), request, seed=1)
    except PolicyConflict:
        assert conflicts
        return
    except BadRequest:
        assert any(combined.forbid.get(param) == "reject" for param in asked.given())
        return
    assert not conflicts
    got = msgspec.structs.asdict(decided.sampling)
    for param, (lowest, highest) in combined.clamp.items():
        assert lowest <= got[param] <= highest
    assert all(got[param] == value for param, value in combined.lock.items())
    rewritten = {rewrite.param for rewrite in decided.rewrites}
    for param, value in asked.given().items():
        assert got[param] == value or param in rewritten


def test_the_seed_of_the_caller_is_used_only_where_nobody_set_one(deployment: Deployment) -> None:
    target = find(deployment, "m")
    unset = GenerateRequest(model="m", messages=())
    chosen = GenerateRequest(model="m", messages=(), sampling=SamplingPatch(seed=0))
    assert decide(deployment, target, unset, seed=42).sampling.seed == 42
    assert decide(deployment, target, chosen, seed=42).sampling.seed == 0


def test_what_was_decided_can_be_sent(deployment: Deployment) -> None:
    """Template variables are plain values: they travel to the engine."""
    nested = replace(deployment, defaults=Overlay(template=frozen({"a": {"b": {"c": 1}}, "d": [{"e": 1}]})))
    decided = decide(nested, find(nested, "m"), GenerateRequest(model="m", messages=()), seed=1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(decided.template)) == decided.template


FORBIDDING = """version: 1
profiles: {terse: {sampling: {temperature: 0.25}}, other: {sampling: {temperature: 0.75}}}
models:
  demo: {source: smollm2-135m, policy: {forbid: {profile: %s}}}
aliases: {fast: {model: demo, profile: other}}
"""


@pytest.mark.parametrize(("asked", "temperature"), [("fast", 0.75), ("fast:terse", 0.75), ("fast:other", 0.75)])
def test_a_profile_that_is_stripped_leaves_those_of_the_file(asked: str, temperature: float, here: Path) -> None:
    deployment = golden.read(FORBIDDING % "strip")
    decided = decide(deployment, find(deployment, asked), GenerateRequest(model=asked), 0)
    assert decided.sampling.temperature == temperature
    stripped = [str(rewrite) for rewrite in decided.rewrites]
    assert stripped == ([f"profile=stripped({asked.partition(':')[2]}>None)"] if ":" in asked else [])


def test_a_profile_that_is_rejected_is_a_bad_request_and_the_name_alone_is_not(here: Path) -> None:
    deployment = golden.read(FORBIDDING % "reject")
    assert decide(deployment, find(deployment, "fast"), GenerateRequest(model="fast"), 0)
    with pytest.raises(BadRequest, match="ask for `fast`"):
        decide(deployment, find(deployment, "fast:terse"), GenerateRequest(model="fast:terse"), 0)
