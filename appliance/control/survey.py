"""Where the models of a deployment are on this machine, and the memory each is expected to take. Reads files."""

from dataclasses import replace

from appliance.config.deployment import Deployment, ModelSpec
from appliance.control import demand
from appliance.control.demand import Place
from appliance.control.machine import Machine
from appliance.control.sizes import Sizes
from appliance.models.store import Store


def survey(deployment: Deployment, store: Store, machine: Machine, sizes: Sizes) -> dict[str, Place]:
    """By the fingerprint of a model."""
    models = demand.distinct(deployment.models.values())
    return {model.fingerprint: place(model, deployment.engine.blas, store, machine, sizes) for model in models}


def place(model: ModelSpec, blas: str, store: Store, machine: Machine, sizes: Sizes) -> Place:
    """One model, with what its engine took when it was loaded last."""
    found = machine.place(model, store)
    return replace(found, measured=sizes.get(demand.engine_of(model, blas)))
