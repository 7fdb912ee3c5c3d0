"""What `GET /v1/models` says about each name a client may use."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.sampling import find, listed
from appliance.control.status import ModelStatus


def cards(deployment: Deployment, statuses: Mapping[str, ModelStatus], created: int) -> dict[str, dict[str, Any]]:
    """Cards by id: models, then the aliases clients may know of. `statuses` are by model, `created` Unix seconds."""
    models = {id: find(deployment, id).model for id in listed(deployment)}
    found = {id: _card(id, created, _facts(model, statuses.get(model.name))) for id, model in models.items()}
    return {**found, **{id: _card(id, created, {"state": "routed"}) for id in deployment.routing.virtual}}


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
    return {"context": context, "state": status.state.value if status else "cold", "model": model.name}


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
