"""llama-swap's filters: parameters of requests that are stripped or set, per model and per name."""

from collections.abc import Mapping, Set
from typing import Any

from appliance.convert.draft import Draft, permitted
from appliance.vocab.request import SamplingPatch

SAMPLING = set(SamplingPatch.__struct_fields__)
RENAMED = {
    "repeat_penalty": "repetition_penalty",
    "n_predict": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning_max_tokens": "reasoning_budget",
    "thinking_token_budget": "reasoning_budget",
    "thinking_budget_tokens": "reasoning_budget",
}


def filters(draft: Draft, model: str, asked: str, given: Mapping[str, Any]) -> None:
    """Stripping is `forbid`, setting is `lock`; sets per name are aliases, or profiles where a name has a `:`."""
    where = f"models.{model}.filters"
    for param in str(given.get("stripParams") or "").replace(",", " ").split():
        ours = RENAMED.get(param, param)
        if ours in SAMPLING | {"logprobs"}:
            draft.put(("models", model, "policy", "forbid", ours), "strip", f"{where}.stripParams {param}")
        else:
            draft.lose(f"{where}.stripParams {param}", "only sampling parameters can be forbidden")
    by_name = {str(name): values or {} for name, values in (given.get("setParamsByID") or {}).items()}
    own = {**(given.get("setParams") or {}), **by_name.pop(asked, {})}
    _set(draft, ("models", model), own, f"{where}.setParams", soft={p for values in by_name.values() for p in values})
    for name, values in by_name.items():
        _by_name(draft, model, asked, name, values, f"{where}.setParamsByID {name}")
    for key in set(given) - {"stripParams", "strip_params", "setParams", "setParamsByID"}:
        draft.lose(f"{where}.{key}", "no key of that tool that we know")


def _by_name(draft: Draft, model: str, asked: str, name: str, values: Mapping[str, Any], origin: str) -> None:
    base, colon, profile = name.rpartition(":")
    if not colon or base != asked:
        alias = permitted(name)
        draft.put(("aliases", alias, "model"), model, origin)
        _set(draft, ("aliases", alias), values, origin)
        if alias != name:
            draft.lose(origin, f"a name has no `:`; it is {alias} here")
        return
    beside = Draft("")
    _set(beside, ("profiles", profile), values, origin)
    before = {path: value for path, value in draft.values.items() if path[:2] == ("profiles", profile)}
    if before and before != beside.values:
        alias = permitted(name)
        draft.put(("aliases", alias, "model"), model, origin)
        _set(draft, ("aliases", alias), values, origin)
        draft.lose(origin, f"another model has a `{profile}` of other values; this one is {alias} here")
        return
    _set(draft, ("profiles", profile), values, origin)


def _set(
    draft: Draft, where: tuple[str, ...], values: Mapping[str, Any], origin: str, soft: Set[str] = frozenset()
) -> None:
    """What one of the model's names sets otherwise, the model itself can only recommend: locks must agree."""
    for param, value in values.items():
        ours = RENAMED.get(param, param)
        if ours in SAMPLING and param in soft:
            draft.put((*where, "sampling", ours), value, f"{origin} {param}")
            draft.lose(f"{origin} {param}", "a recommendation here, for another name of the model sets it otherwise")
        elif ours in SAMPLING:
            draft.put((*where, "policy", "lock", ours), value, f"{origin} {param}")
        elif param == "chat_template_kwargs" and isinstance(value, Mapping):
            draft.put((*where, "template"), value, f"{origin} {param}")
        else:
            draft.lose(f"{origin} {param}", "only sampling parameters and template variables can be set")
