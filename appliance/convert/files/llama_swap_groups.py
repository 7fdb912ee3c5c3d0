"""llama-swap's groups, selectors and peers: what may be in memory together, and names that stand for several."""

from collections.abc import Mapping
from typing import Any

from appliance.convert import values as v
from appliance.convert.draft import Draft, permitted


def carry(draft: Draft, given: Mapping[str, Any]) -> None:
    """Put groups, selectors and peers of a plain document."""
    routing = given.get("routing") or {}
    settings = (routing.get("router") or {}).get("settings") or {}
    groups = given.get("groups") or settings.get("groups") or {}
    _groups(draft, groups)
    if given.get("matrix") or settings.get("matrix"):
        draft.lose("matrix", "what fits memory.budget may be loaded together; exceptions are memory.exclusive")
    if routing.get("scheduler"):
        draft.lose("routing.scheduler", "a client's priority is that of its key: security.keys.<name>.priority")
    if not groups and not settings.get("matrix") and not given.get("matrix"):
        draft.put(("memory", "max_loaded"), 1, "llama-swap's way: one model at a time")
    for name, selector in (given.get("selectors") or {}).items():
        _selector(draft, str(name), selector or {})
    _peers(draft, given.get("peers") or {})


def _groups(draft: Draft, groups: Mapping[str, Any]) -> None:
    exclusive = []
    for name, group in groups.items():
        members = [permitted(str(member)) for member in group.get("members") or []]
        members = [member for member in members if draft.has("models", member)]
        if group.get("swap", True) and len(members) > 1:
            exclusive.append(members)
        if group.get("persistent"):
            for member in members:
                draft.put(("models", member, "pin"), True, f"groups.{name}.persistent")
        if group.get("exclusive", True) and len(groups) > 1:
            draft.lose(f"groups.{name}.exclusive", "what has to leave for a model is decided by memory alone")
    if exclusive:
        draft.put(("memory", "exclusive"), exclusive, "groups")


def _selector(draft: Draft, name: str, selector: Mapping[str, Any]) -> None:
    targets = [permitted(str(target)) for target in selector.get("targets") or []]
    virtual = draft.values.get(("routing", "virtual"), [])
    rules = draft.values.get(("routing", "rules"), [])
    rule: dict[str, Any] = {"name": permitted(name), "when": {"model": permitted(name)}}
    match selector.get("strategy"):
        case "warm":
            rule |= {"use": targets, "prefer": "warm"}
        case "pin":
            rule |= {"use": targets[:1]}
        case other:
            draft.lose(f"selectors.{name}", f"there is no way of choosing like {other}; the first target is used")
            rule |= {"use": targets[:1]}
    draft.put(("routing", "virtual"), [*virtual, permitted(name)], f"selectors.{name}")
    draft.put(("routing", "rules"), [*rules, rule], f"selectors.{name}")


def _peers(draft: Draft, peers: Mapping[str, Any]) -> None:
    for name, peer in peers.items():
        url = str((peer or {}).get("proxy", ""))
        if not url.startswith(("http://", "https://")):
            draft.lose(f"peers.{name}", "a peer is reached by http or https")
            continue
        where = ("routing", "peers", permitted(str(name)))
        draft.put((*where, "url"), url, f"peers.{name}.proxy")
        if key := peer.get("apiKey"):
            variable = f"{permitted(str(name)).upper().replace('-', '_')}_KEY"
            secret = key if str(key).startswith(v.ENV_OPEN) else v.env(f"{variable}:?export {variable} first")
            draft.put((*where, "key"), secret, f"peers.{name}.apiKey")
            if secret is not key:
                draft.lose(f"peers.{name}.apiKey", f"secrets do not belong into the file: export {variable}")
        for other in sorted(set(peer) - {"proxy", "apiKey", "models"}):
            draft.lose(f"peers.{name}.{other}", "a peer has a url and a key")
        if peer.get("models"):
            draft.lose(f"peers.{name}.models", f"a peer says itself what it serves; ask for {name}/<model>")
