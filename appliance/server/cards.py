"""What `GET /v1/models` says about each name a client may use."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.peered import is_peer
from appliance.config.sampling import find
from appliance.control.status import ModelStatus
from appliance.protocols.peers.listing import ELSEWHERE

Statuses = Mapping[str, ModelStatus]
"""By model."""


def cards(
    deployment: Deployment, statuses: Statuses, created: int, names: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Cards by id, of these names that a client may know of. `created` is Unix seconds."""
    groups = _groups(deployment, names)
    return {id: _of(deployment, id, statuses, created, groups) for id in names}


def card(deployment: Deployment, id: str, statuses: Statuses, created: int, names: Collection[str]) -> dict[str, Any]:
    """The card of any name a request could be sent to. Raises UnknownModel."""
    return _of(deployment, id, statuses, created, _groups(deployment, names))


def routed(id: str, created: int) -> dict[str, Any]:
    """The card of a virtual name."""
    return _card(id, created, {"state": "routed"})


def _of(
    deployment: Deployment, id: str, statuses: Statuses, created: int, groups: Mapping[str, list[str]]
) -> dict[str, Any]:
    model = find(deployment, id).model
    others = [name for name in groups.get(model.name, ()) if name != id]
    facts = _elsewhere(model) if is_peer(model) else _facts(model, statuses.get(model.name))
    return _card(id, created, {**facts, "aliases": others})


def _groups(deployment: Deployment, names: Collection[str]) -> dict[str, list[str]]:
    """By model, the names that stand for it."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(deployment, name).model.name, []).append(name)
    return groups


def _elsewhere(model: ModelSpec) -> dict[str, Any]:
    """All that is known of a peer's model."""
    return {"state": ELSEWHERE, "model": model.name}


def card_list(cards: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The list both OpenAI's and Anthropic's clients page through."""
    ids = list(cards)
    return {
        "object": "list",
        "data": list(cards.values()),
        "has_more": False,
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
    }


def _facts(model: ModelSpec, status: ModelStatus | None) -> dict[str, Any]:
    """A loaded checkpoint may allow less context than the file does."""
    loaded = status.info if status else None
    context = min(model.context, loaded.context) if loaded else model.context
    return {
        "context": context,
        "state": status.state.value if status else "cold",
        "model": model.name,
        "capabilities": capabilities(model),
    }


def capabilities(model: ModelSpec) -> list[str]:
    """In Ollama's words. Tools are for every model: those without a form of their own are told in words."""
    thinks = model.family.capabilities.get("thinking", "none") not in ("none", False)
    return ["completion", "tools", *(["thinking"] if thinks else [])]


def _card(id: str, created: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": id,
        "object": "model",
        "created": created,
        "owned_by": "appliance",
        "type": "model",
        "display_name": id,
        "created_at": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        **facts,
    }
