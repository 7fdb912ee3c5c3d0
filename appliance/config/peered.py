"""A model that another server has, as one of ours: what `peer/model` stands for. PURE."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from appliance.config.deployment import CachePolicy, Deployment, Family, ModelSpec, Overlay, Source
from appliance.config.routing import Peer
from appliance.vocab.request import SamplingPatch

LONGEST_NAME = 512
AT_ONCE = 16
"""How many lines of a batch a peer is asked at a time."""
_CAN: Mapping[str, Any] = MappingProxyType({"tools": "parallel", "vision": False, "thinking": "unknown"})
"""What is taken to be true of a model nobody here can look at. We speak text only."""


def split(deployment: Deployment, name: str) -> tuple[Peer, str] | None:
    """The peer and its own name of the model, where a name is `peer/model`."""
    first, slash, model = name.partition("/")
    peer = deployment.routing.peers.get(first)
    if peer is None or not slash or not model or len(model) > LONGEST_NAME or not model.isprintable():
        return None
    return peer, model


def model_of(peer: Peer, model: str) -> ModelSpec:
    """As the rest of the appliance knows a model: without files, memory or a family's habits."""
    name = f"{peer.name}/{model}"
    return ModelSpec(
        name=name,
        source=Source("peer", model, name),
        dtype="auto",
        trust_remote_code=False,
        load="lazy",
        pin=False,
        idle_unload=math.inf,
        context=2**31,
        concurrency=AT_ONCE,
        cache=CachePolicy("none", 0),
        load_timeout=math.inf,
        own=Overlay(),
        profile=None,
        template_text=None,
        family=Family("peer", capabilities=_CAN),
        checkpoint=SamplingPatch(),
        fingerprint=f"peer:{name}",
    )


def is_peer(model: ModelSpec) -> bool:
    """Whether a request for it leaves this machine."""
    return model.source.kind == "peer"
