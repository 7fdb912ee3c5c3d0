"""What `GET /v1/models` says about each name a client may use."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.sampling import find
from appliance.config.sampling import listed as names
from appliance.control.status import ModelStatus

Shown = Callable[[str], bool]
"""Whether a client may know of a name."""

Statuses = Mapping[str, ModelStatus]
"""By model."""


def cards(deployment: Deployment, statuses: Statuses, created: int, shown: Shown) -> dict[str, dict[str, Any]]:
    """Cards by id: models, then the aliases clients may know of, of the names that are `shown`. `created` is Unix
    seconds.
    """
    listed = [id for id in names(deployment) if shown(id)]
    found = {id: card(deployment, id, statuses, created, shown) for id in listed}
    routed = {id: _card(id, created, {"state": "routed"}) for id in deployment.routing.virtual if shown(id)}
    return {**found, **routed}


def card(deployment: Deployment, id: str, statuses: Statuses, created: int, shown: Shown) -> dict[str, Any]:
    """The card of any name a request could be sent to. Raises UnknownModel."""
    model = find(deployment, id).model
    others = [name for name in names(deployment) if find(deployment, name).model.name == model.name]
    facts = _facts(model, statuses.get(model.name))
    return _card(id, created, {**facts, "aliases": [name for name in others if name != id and shown(name)]})


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
