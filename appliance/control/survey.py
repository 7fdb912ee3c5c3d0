"""Where the models of a deployment are on this machine, and the memory each is expected to take. Reads files."""

from collections.abc import Sequence
from dataclasses import replace

from appliance.config.deployment import Deployment, ModelSpec
from appliance.control import demand
from appliance.control.demand import Place
from appliance.control.footprint import adapter_bytes
from appliance.control.machine import Machine
from appliance.control.sizes import Sizes
from appliance.models.store import Store


def survey(deployment: Deployment, store: Store, machine: Machine, sizes: Sizes) -> dict[str, Place]:
    """By the fingerprint of a model."""
    sharers: dict[str, list[ModelSpec]] = {}
    for model in deployment.models.values():
        sharers.setdefault(model.fingerprint, []).append(model)
    blas = deployment.engine.blas
    return {fingerprint: place(models, blas, store, machine, sizes) for fingerprint, models in sharers.items()}


def place(models: Sequence[ModelSpec], blas: str, store: Store, machine: Machine, sizes: Sizes) -> Place:
    """Of models that share an engine, with what that took when it was loaded last, and the adapters of all."""
    found = machine.place(models[0], store)
    adapters = adapter_bytes(directory for model in models for directory in model.adapters.values())
    measured = sizes.get(demand.engine_of(models[0], blas))
    return replace(found, measured=measured, activations=found.activations + adapters, adapters=adapters)
