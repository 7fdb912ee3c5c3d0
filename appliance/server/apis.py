"""Which protocol a path belongs to, and whether the deployment speaks it."""

from appliance.config.deployment import Deployment
from appliance.errors import UnknownPath

BELONGS: dict[str, str] = {
    "/v1/messages": "anthropic",
    "/api/": "ollama",
    "/v1/chat/": "openai",
    "/v1/completions": "openai",
    "/v1/responses": "openai",
    "/v1/files": "openai",
    "/v1/batches": "openai",
}
"""By the beginning of a path; what is not here is nobody's in particular: models, tokens, requests, health."""


def check_spoken(deployment: Deployment, path: str) -> None:
    """Raises UnknownPath where `server.apis` leaves its protocol out."""
    api = next((api for start, api in BELONGS.items() if path.startswith(start)), None)
    if api is not None and api not in deployment.server.apis:
        raise UnknownPath(f"there is nothing at {path[:200]}: server.apis does not list {api}")
