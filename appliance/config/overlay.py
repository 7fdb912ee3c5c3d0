"""Checked values as frozen overlays, and how one is laid over another: leaf by leaf."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from appliance.config.layers import EMPTY, Overlay, Policy
from appliance.vocab.request import SamplingPatch

_REALS = {"temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"}


def overlay(value: Mapping[str, Any]) -> Overlay:
    """The request-time part of a model, alias, profile or of `defaults`."""
    return Overlay(
        sampling=sampling_patch(value.get("sampling", EMPTY)),
        template=frozen(value.get("template", EMPTY)),
        policy=policy(value.get("policy", EMPTY)),
        adapter=value.get("adapter"),
    )


def sampling_patch(value: Mapping[str, Any]) -> SamplingPatch:
    return SamplingPatch(**{name: leaf(name, v) for name, v in value.items()})


def policy(value: Mapping[str, Any]) -> Policy:
    clamps = value.get("clamp", EMPTY).items()
    return Policy(
        lock=MappingProxyType({name: leaf(name, v) for name, v in value.get("lock", EMPTY).items()}),
        clamp=MappingProxyType({name: (leaf(name, v[0]), leaf(name, v[1])) for name, v in clamps if len(v) == 2}),
        forbid=MappingProxyType(dict(value.get("forbid", EMPTY))),
    )


def leaf(name: str, value: Any) -> Any:
    """A sampling value in the type `Sampling` has it in."""
    if name in _REALS:
        return float(value)
    if name == "logit_bias":
        return {int(token): float(bias) for token, bias in value.items()}
    return tuple(value) if isinstance(value, list) else value


def merge_sampling(layers: Iterable[SamplingPatch]) -> dict[str, Any]:
    """Strongest first. What no layer sets is not there. Biases are leaves of their own."""
    out: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.given().items():
            if name not in out:
                out[name] = value
            elif name == "logit_bias":
                out[name] = {**value, **out[name]}
    return out


def merge_template(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Strongest first; objects merge by key, a null falls through."""
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if value is None:
                continue
            if key not in out:
                out[key] = merge_template([value]) if isinstance(value, Mapping) else value
            elif isinstance(out[key], dict) and isinstance(value, Mapping):
                out[key] = merge_template([out[key], value])
    return out


def lay(stronger: Overlay, weaker: Overlay, policy: Policy) -> Overlay:
    """One overlay for two; their policies were combined before."""
    return Overlay(
        sampling=SamplingPatch(**merge_sampling([stronger.sampling, weaker.sampling])),
        template=frozen(merge_template([stronger.template, weaker.template])),
        policy=policy,
        adapter=weaker.adapter if stronger.adapter is None else stronger.adapter,
    )


def frozen(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A read-only copy, all the way down; lists stay lists where templates want lists."""
    return MappingProxyType({k: frozen(v) if isinstance(v, Mapping) else v for k, v in value.items()})
