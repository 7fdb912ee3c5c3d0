"""What a request gets: the target its name stands for, and the sampling all layers and policies decide. PURE."""

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.config.deployment import Alias, Deployment, Mode, ModelSpec, Overlay, Policy, Rewrite, Target
from appliance.config.effort import spoken
from appliance.config.globs import is_glob
from appliance.config.overlay import merge_sampling, merge_template
from appliance.config.peered import is_peer, model_of, split
from appliance.config.policy import tighten
from appliance.config.suggest import did_you_mean
from appliance.errors import BadRequest, PolicyConflict, UnknownModel
from appliance.vocab.request import GenerateRequest, Sampling, SamplingPatch

_OFF = {"top_k": 0}
"""Values that mean no limit: a clamp with a lower end above them treats them as unset."""


@dataclass(frozen=True, slots=True)
class Decided:
    """`template` are the chat template's variables; `rewrites` is what a client asked for and did not get; `adapter`
    is the directory of the one to run with, "" for none; `given_names` are those of the sampling that any layer gave.
    """

    sampling: Sampling
    template: dict[str, Any]
    rewrites: tuple[Rewrite, ...]
    adapter: str = ""
    given_names: frozenset[str] = frozenset()


def find(deployment: Deployment, asked: str, shown: Callable[[str], bool] = lambda name: True) -> Target:
    """What a name (`name` or `name:profile`) stands for: exact model, exact alias, `peer/model`, longest glob.

    Raises UnknownModel, which names what is near, of the names that are to be `shown`.
    """
    name, colon, profile = parted(deployment, asked)
    model, alias = _named(deployment, name, shown)
    chosen: tuple[Overlay, ...] = ()
    if colon:
        if profile not in deployment.profiles:
            hint = did_you_mean(profile, deployment.profiles)
            raise UnknownModel(_sentence(f"there is no profile `{profile}` for `{name}`", hint), param="model")
        chosen = (deployment.profiles[profile],)
    if alias is None:
        return Target(asked, model, chosen)
    return Target(asked, model, (alias.own, *chosen, *(deployment.profiles[p] for p in alias.profiles)))


def parted(deployment: Deployment, asked: str) -> tuple[str, str, str]:
    """The name, a colon and the profile. Peers' own names may hold colons: only a profile of ours is one there."""
    name, colon, profile = asked.partition(":")
    if not colon or name in deployment.models or name in deployment.aliases or not split(deployment, name):
        return name, colon, profile
    name, colon, profile = asked.rpartition(":")
    return (name, colon, profile) if profile in deployment.profiles else (asked, "", "")


def _named(deployment: Deployment, name: str, shown: Callable[[str], bool]) -> tuple[ModelSpec, Alias | None]:
    if name in deployment.models:
        return deployment.models[name], None
    alias = deployment.aliases.get(name)
    if alias is None and (elsewhere := split(deployment, name)) is not None:
        return model_of(*elsewhere), None
    alias = alias or _glob(deployment, name)
    if alias is None:
        names = [each for each in listed(deployment) if shown(each)]
        hint = did_you_mean(name, names) or (f"there are {', '.join(names[:8])}" if names else "")
        raise UnknownModel(_sentence(f"there is no model `{name}`", hint), param="model")
    return model_named(deployment, alias.model), alias


def model_named(deployment: Deployment, name: str) -> ModelSpec:
    """The model an alias stands for: one of the file, or one of a peer's."""
    if (own := deployment.models.get(name)) is not None:
        return own
    elsewhere = split(deployment, name)
    assert elsewhere is not None
    return model_of(*elsewhere)


def is_named(deployment: Deployment, name: str) -> bool:
    """Whether a model, an alias, a peer or a glob answers to it."""
    own = name in deployment.models or name in deployment.aliases
    return own or split(deployment, name) is not None or _glob(deployment, name) is not None


def _glob(deployment: Deployment, name: str) -> Alias | None:
    """The longest pattern that fits; the first in the file among equals."""
    fits = [a for a in deployment.aliases.values() if is_glob(a.name) and fnmatch.fnmatchcase(name, a.name)]
    return max(fits, key=lambda alias: len(alias.name), default=None)


def listed(deployment: Deployment) -> Iterator[str]:
    """The names clients may know of: models, and aliases that are neither hidden nor globs."""
    yield from deployment.models
    yield from (a.name for a in deployment.aliases.values() if not a.hidden and not is_glob(a.name))


def decide(deployment: Deployment, target: Target, request: GenerateRequest, seed: int) -> Decided:
    """Every layer merged leaf by leaf, then the policies: forbid, lock, clamp. `seed` is used if nobody set one.

    Raises BadRequest for a parameter or a choice of profile the policy rejects, PolicyConflict where a chosen profile
    does not go together with the other rules.
    """
    model = target.model
    own = deployment.profiles[model.profile] if model.profile else None
    below = (model.own, *((own,) if own else ()), deployment.defaults)
    overlays, dropped = _permitted(deployment, target, (*target.overlays, *below))
    policy = _policy(overlays)
    said = [request.template, *(overlay.template for overlay in overlays)]
    template = merge_template([*spoken(model.family, said), model.family.template_kwargs])
    asked = {**request.sampling.given(), **({} if request.logprobs is None else {"logprobs": request.logprobs})}
    allowed = _allowed(asked, policy)
    values = merge_sampling(
        [
            SamplingPatch(**{name: value for name, value in allowed.items() if name != "logprobs"}),
            *(overlay.sampling for overlay in overlays),
            chosen.sampling if (chosen := mode(model, template)) else SamplingPatch(),
            model.family.sampling,
            model.checkpoint,
        ]
    )
    values |= {"logprobs": logprobs} if (logprobs := allowed.get("logprobs")) is not None else {}
    given = _clamped({**values, **policy.lock}, policy.clamp)
    adapter = "" if is_peer(model) else _adapter(model, request.adapter, overlays)
    rewrites = (*dropped, *_rewrites(asked, given, policy))
    return Decided(Sampling(**{"seed": seed, **given}), template, rewrites, adapter, frozenset(given))


def _adapter(model: ModelSpec, asked: str | None, overlays: tuple[Overlay, ...]) -> str:
    """The directory of what the request asks for, else of what the strongest layer that names one does."""
    name = next((name for name in (asked, *(o.adapter for o in overlays)) if name is not None), "")
    if not name:
        return ""
    if name not in model.adapters:
        hint = did_you_mean(name, model.adapters) or f"it has {', '.join(model.adapters) or 'none'}"
        raise BadRequest(_sentence(f"`{model.name}` has no adapter `{name}`", hint), param="adapter")
    return model.adapters[name]


def _permitted(
    deployment: Deployment, target: Target, overlays: tuple[Overlay, ...]
) -> tuple[tuple[Overlay, ...], tuple[Rewrite, ...]]:
    """The overlays without the profile the request chose, where a policy strips it."""
    profile = target.asked.partition(":")[2]
    chosen = deployment.profiles.get(profile)
    place = next((i for i, overlay in enumerate(overlays) if overlay is chosen), None)
    hows = {overlay.policy.forbid.get("profile") for overlay in overlays}
    if place is None or hows == {None}:
        return overlays, ()
    if "reject" in hows:
        raise BadRequest(f"no profile may be chosen here: ask for `{target.asked.partition(':')[0]}`", param="model")
    return (*overlays[:place], *overlays[place + 1 :]), (Rewrite("profile", "stripped", profile, None),)


def _policy(overlays: tuple[Overlay, ...]) -> Policy:
    policy, conflicts = tighten([overlay.policy for overlay in reversed(overlays)])
    if conflicts:
        conflict = conflicts[0]
        raise PolicyConflict(f"{conflict.param}: {conflict.message}; choose another profile", param="model")
    return policy


def mode(model: ModelSpec, template: Mapping[str, Any]) -> Mode | None:
    """The family's mode that these template variables choose."""
    fits = (m for m in model.family.modes if all(k in template and template[k] == v for k, v in m.when.items()))
    return next(fits, None)


def _allowed(asked: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    for param in asked:
        if policy.forbid.get(param) == "reject":
            raise BadRequest(f"`{param}` may not be set here", param=param)
    return {param: value for param, value in asked.items() if param not in policy.forbid}


def _clamped(values: dict[str, Any], clamps: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    for param, (low, high) in clamps.items():
        value = values.get(param, _BUILT_IN[param])
        if value is None or (value == _OFF.get(param) and value < low):
            values[param] = high
        else:
            values[param] = min(max(value, low), high)
    return values


_BUILT_IN = {name: getattr(Sampling(), name) for name in Sampling.__struct_fields__}


def _rewrites(asked: Mapping[str, Any], given: Mapping[str, Any], policy: Policy) -> Iterator[Rewrite]:
    for param, value in asked.items():
        got = given.get(param, _BUILT_IN[param])
        if param in policy.forbid:
            yield Rewrite(param, "stripped", value, got)
        elif param in policy.lock:
            if value != got:
                yield Rewrite(param, "locked", value, got)
        elif value != got and param in policy.clamp:
            yield Rewrite(param, "clamped", value, got)


def _sentence(message: str, hint: str) -> str:
    return f"{message}; {hint}" if hint else message
