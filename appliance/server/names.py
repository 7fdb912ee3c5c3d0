"""Which names a client may know of: those its key may ask for, without what it may not leave this machine for."""

from collections.abc import Iterator

from appliance.config.access import Key
from appliance.config.deployment import Deployment, ModelSpec
from appliance.config.peered import is_peer, split
from appliance.config.sampling import find, listed
from appliance.control.keys import check, permits
from appliance.errors import EgressDenied
from appliance.server.context import Context


def known_to(context: Context, key: Key | None) -> Iterator[str]:
    """Models, aliases clients may know of, and what peers have listed; virtual names are not among them."""
    deployment = context.running.deployment
    for name in (*listed(deployment), *_of_peers(context, deployment)):
        if shown(deployment, key, name):
            yield name


def shown(deployment: Deployment, key: Key | None, name: str) -> bool:
    """Whether this key's holder may know of a name that is there."""
    return permits(key, name) and not _kept_in(deployment, key, name)


def check_shown(deployment: Deployment, key: Key | None, name: str) -> None:
    """Raises NotAllowed, EgressDenied, UnknownModel."""
    check(key, name)
    if name in deployment.routing.virtual:
        return
    find(deployment, name, lambda other: shown(deployment, key, other))
    if _kept_in(deployment, key, name):
        raise EgressDenied(f"`{name}` is elsewhere, where this key's requests may not go", param="model")


def counted_as(context: Context, deployment: Deployment, model: ModelSpec) -> str:
    """What metrics call a model. Clients choose what they ask peers for, so of those that neither the file nor the
    peer names there is one.
    """
    elsewhere = split(deployment, model.name) if is_peer(model) else None
    if elsewhere is None or elsewhere[1] in context.traffic.peers.models(elsewhere[0]):
        return model.name
    return model.name if model.name in _written(deployment) else f"{elsewhere[0].name}/other"


def _written(deployment: Deployment) -> Iterator[str]:
    """The models that aliases, rules and fallbacks lead to; and what rules and fallbacks call them."""
    yield from (alias.model for alias in deployment.aliases.values())
    yield from (goal.to for rule in deployment.routing.rules for goal in rule.use)
    for name, fallback in deployment.routing.fallback.items():
        yield name
        yield from fallback.to


def _kept_in(deployment: Deployment, key: Key | None, name: str) -> bool:
    return key is not None and key.egress == "deny" and is_peer(find(deployment, name).model)


def _of_peers(context: Context, deployment: Deployment) -> Iterator[str]:
    for peer in deployment.routing.peers.values():
        for model in context.traffic.peers.models(peer):
            name = f"{peer.name}/{model}"
            ours = name in deployment.models or name in deployment.aliases
            if not ours and split(deployment, name) is not None:
                yield name
